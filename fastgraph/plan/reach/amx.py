"""Ranges of convolutions and dense layers on AMX tiles that follow from a table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...kernels.amx.pack_amx import LINE, WORK, configuration, panel_bytes
from .bands import band, taps
from .call import KNOWN, Call, Reach, need, reaches, work

KNOWN["panel_bytes"] = lambda c: panel_bytes
KNOWN["n0"] = lambda c: 0


@reaches("amx_conv")
def amx_conv(c: Call) -> Iterator[Reach]:
    """Bands of rows, and lines of them; tiles are configured by a constant."""
    r, tiles = c.record(), (c.params["mt"], c.params["nt"])
    shape = bytes(c.table("config", 64, np.uint8))
    need(shape == configuration(*tiles, r.rows).tobytes(), "tiles of other shapes")
    height = r.band // r.across
    if not r.direct:
        yield from band(c, 1, height, r.out_h)
    yield from taps(c, c.table("table", r.lines), LINE, LINE - 1, height, r.out_w)
    yield work("scratch", WORK, (c.threads, r.scratch_bytes), start=r.work)
