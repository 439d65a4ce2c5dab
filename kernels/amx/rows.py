"""The row of the table for convolutions and dense layers on AMX tiles, and its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.record import Record, number, reads
from ..core.table import Row
from ..gemm.rows import CONV, STORED, STORES
from ..isa.tiers import Tier
from .pack_amx import ROWS as TILE_ROWS
from .pack_amx import WORK

AMX_CONV = (
    Record(
        {slot: meaning for slot, meaning in CONV.items() if slot not in ("taps", "n0", "k", "height", "length")},
        w=reads("the panels of pack.pack_amx", "sets * ceil_div(n, 16 * nt) * panel_bytes(nt, lines)"),
        table=reads("[lines] int64: bytes from a pixel to where each of its lines begins", "8 * lines"),
        config=reads("the 64 bytes of pack.configuration for tiles of `rows` pixels", "64"),
        work=number(
            "bytes of a thread's scratch before the pack.WORK that blocks take",
            f"in range(0, scratch_bytes - {WORK} + 1, 64)",
        ),
        lines=number("lines of 64 bytes in a sum", "> 0"),
        rows=number("pixels of a tile", f"in range(1, min({TILE_ROWS}, out_w) + 1)"),
        across=number("tiles in a row of the result", "== ceil_div(out_w, rows)"),
        band=number("tiles of a band, of whole rows unless `direct`", "> 0 and (direct or band % across == 0)"),
        prefetch="cache lines of the next panel fetched beside each line",
    )
    + STORED
)
"""As CONV, for all channels of a group."""

BLOCKS = ((2, 2), (1, 4), (4, 1))
"""Tiles down and across: four sums hide the latency of a product, and then two loads each meet two products."""


def _exists(tier: Tier, params: Mapping[str, Any]) -> bool:
    return tier.tiles and (params["mt"], params["nt"]) in BLOCKS


_PARAMS = {"mt": (1, 2, 4), "nt": (1, 2, 4), "out": tuple(STORES)}

ROWS = (Row("amx_conv", "amx.amx_conv", "make_amx_conv", AMX_CONV, _PARAMS, _exists, product=True),)
