"""Ranges of convolutions and dense layers on AMX tiles that follow from a table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...kernels.amx.pack_amx import LINE, WORK, configuration, panel_bytes
from ...kernels.amx.pack_real import MT, held_planes, panel_bytes_real
from ...kernels.amx.pack_real import WORK as REAL_WORK
from ...kernels.amx.pick_codes import NT
from ...kernels.gemm.pick_blocks import per_word
from .bands import band, taps
from .call import KNOWN, Call, Reach, need, parts, reaches, read, work

KNOWN["panel_bytes"] = lambda c: panel_bytes
KNOWN["panel_bytes_real"] = lambda c: panel_bytes_real
KNOWN["n0"] = lambda c: 0


@reaches("amx_conv", "amx_dynamic")
def amx_conv(c: Call) -> Iterator[Reach]:
    """Bands of rows, and lines of them; tiles are configured by a constant."""
    r, tiles = c.record(), (c.params.get("mt", MT), c.params["nt"])
    shape = bytes(c.table("config", 64, np.uint8))
    need(shape == configuration(*tiles, r.rows).tobytes(), "tiles of other shapes")
    height = r.band // r.across
    if not r.direct:
        yield from band(c, 1, height, r.out_h)
    yield from taps(c, c.table("offsets", r.lines), LINE, LINE - 1, height, r.out_w)
    yield work("scratch", WORK if "mt" in c.params else REAL_WORK, (c.threads, r.scratch_bytes), start=r.work)


@reaches("amx_real")
def amx_real(c: Call) -> Iterator[Reach]:
    """Pixels of x, or bands of its rows, as planes of bf16 or f16, and lines of them."""
    r, planes = c.record(), held_planes(c.params["planes"], c.params["element"])
    shape, table = bytes(c.table("config", 64, np.uint8)), c.table("offsets", r.lines)
    need(shape == configuration(MT, c.params["nt"], r.rows, r.length).tobytes(), "tiles of other shapes")
    need(planes * r.plane <= r.work, f"{planes} planes of {r.plane} bytes do not fit {r.work}")
    x = (r.images, r.x_image), (r.sets, r.x_set), (r.out_w, r.x_step)
    if r.in_place:
        need(r.direct == 1 and r.x_item == 2 and r.rs == r.x_step, "x can't be read in place")
        yield read("x", r.lines * r.length, *x)
        need((table == r.length * np.arange(r.lines)).all(), "lines of a pixel lie apart")
        yield work("scratch", REAL_WORK, (c.threads, r.scratch_bytes), start=r.work)
        return
    if r.direct:
        pixels = min(r.band, r.across) * r.rows
        end = (pixels - 1) * r.pixel_step + parts(2 * r.run, LINE) * LINE
        last = (pixels - 1) * r.rs
        yield read("x", r.x_item * r.run, *x)
    else:
        height = r.band // r.across
        rows = (min(height, r.out_h) - 1) * r.move_y + r.reach
        end = (r.k_d - 1) * r.band_z + rows * r.band_y + LINE
        last = (min(height, r.out_h) - 1) * r.gs + (r.out_w - 1) * r.rs
        yield from band(c, r.x_item, height, r.out_h, made=2)
    need(end <= r.plane, f"a plane takes {end} bytes of {r.plane}")
    need(r.rs >= 0 and r.gs >= 0, "pixels of a plane lie before its start")
    lines = last + int(table.max()) + r.length
    need(table.min() >= 0 and lines <= r.plane, f"lines are read up to byte {lines} of a plane of {r.plane}")
    yield work("scratch", planes * r.plane, (c.threads, r.scratch_bytes))
    yield work("scratch", REAL_WORK, (c.threads, r.scratch_bytes), start=r.work)


@reaches("amx_blocks")
def amx_blocks(c: Call) -> Iterator[Reach]:
    """Tiles are configured by a constant."""
    r = c.record()
    need(bytes(c.table("config", 64, np.uint8)) == configuration(MT, NT, r.rows).tobytes(), "tiles of other shapes")
    blocks = parts(r.k, r.block * per_word(c.params["bits"]))
    need(r.note == 4 * (1 + blocks), f"notes of {r.note} bytes for {blocks} blocks")
    yield from ()
