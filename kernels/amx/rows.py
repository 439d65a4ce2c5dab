"""The kernel of convolutions and dense layers on AMX tiles, and its record."""

from __future__ import annotations

from ..core.record import Record
from ..core.table import Row
from ..gemm.rows import CONV

_OWN = Record(
    w="address of pack_amx's panels [sets, panels, ...]",
    table="address of [lines] int64: bytes from a pixel to each of its lines of 64 bytes",
    config="address of the 64 bytes of pack.configuration",
    work="bytes of a thread's scratch before those of pack.WORK",
    zero_point="as of dot_int8",
    low="as of dot_int8",
    high="as of dot_int8",
    lines="lines of 64 bytes in a sum",
    rows="pixels in a tile",
    across="tiles that make a row of the result",
    band="tiles that a band is for, of whole rows unless `direct`",
    prefetch="cache lines of the next panel's weights fetched beside each line of 64 bytes",
)

AMX_CONV = Record({name: said for name, said in CONV.items() if name not in (*_OWN, "n0", "k", "segments", "length")})
AMX_CONV += _OWN
"""Slots that CONV has too mean the same."""

ROWS = (Row("amx_conv", "amx.conv", "make_amx_conv", ("mt", "nt", "out"), AMX_CONV),)
