"""What convolutions and dense layers on AMX tiles reach."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...kernels.amx.pack_amx import LINE, ROWS, WORK, configuration, panel_bytes
from ...kernels.gemm.rows import STORES
from .bands import band, taps
from .call import Call, Reach, need, parts, reaches, read, work, write


@reaches("amx_conv")
def amx_conv(c: Call) -> Iterator[Reach]:
    r = c.record("images sets n n_set out_d out_h out_w scratch_bytes work", "rows across band lines")
    nt, mt, item = c.params["nt"], c.params["mt"], STORES[c.params["out"]]
    tiles = parts(r.out_w, r.rows)
    need(r.rows <= min(ROWS, r.out_w) and tiles == r.across, f"{r.across} tiles of {r.rows} in {r.out_w}")
    used = int(bool(r.images * r.sets * r.out_d * r.out_h * r.n))
    yield read("config", 64)
    need(bytes(c.table("config", 64, np.uint8)) == configuration(mt, nt, r.rows).tobytes(), "tiles of other shapes")
    yield read("table", 8 * r.lines)
    there = r.work % 64 == 0 and r.work + WORK <= r.scratch_bytes
    need(there, f"work is {r.work}, with {WORK} bytes, in scratch_bytes {r.scratch_bytes}")
    height = r.band // r.across
    if not r.direct:
        need(r.band % r.across == 0, f"band is {r.band}, expected a multiple of {r.across}")
        yield from band(c, 1, used * height, r.out_h)
    yield from taps(c, c.table("table", r.lines), LINE, LINE - 1, height, r.out_w * used)
    yield work("scratch", WORK, (c.threads, r.scratch_bytes), start=r.work)
    yield read("w", used * r.sets * parts(r.n, 16 * nt) * panel_bytes(nt, r.lines))
    pixels = r.images * r.out_d * r.out_h * r.out_w
    yield write("y", r.n * item, (pixels, item * r.ldy), (r.sets, r.n_set * item))
