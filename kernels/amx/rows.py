"""The rows of the table for convolutions and dense layers on AMX tiles, and their records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.record import Record, flag, number, reads, works, writes
from ..core.table import Row
from ..gemm.pick_blocks import BITS
from ..gemm.rows import CONV, DOT_BLOCKS, STORED, STORES, ranges
from ..isa.tiers import BF16, F16, Tier
from ..pointwise.rows import ALL_FORMS, ending
from .pack_amx import LINE, SUMS, WORK
from .pack_amx import ROWS as TILE_ROWS
from .pack_real import MT
from .pack_real import WORK as REAL_WORK
from .pick_codes import NT as CODES_NT
from .pick_codes import PLANES


def _tiled(panels: str, work: int, **more: str) -> Record:
    """As CONV, for all channels of a group, on tiles; panels: bytes of the weights of 16 * nt columns, work: those that
    blocks take.
    """
    return Record(
        CONV.but("taps inside n0 k height length"),
        w=reads("the packed panels", f"sets * ceil_div(n, 16 * nt) * {panels}"),
        offsets=reads("[lines] int64: bytes from a pixel to where each of its lines begins", "8 * lines"),
        config=reads("the 64 bytes of pack_amx.configuration for tiles of `rows` pixels", "64"),
        work=number(
            "bytes of a thread's scratch before those that blocks take", f"in range(0, scratch_bytes - {work} + 1, 64)"
        ),
        lines=number("lines of 64 bytes in a sum", "> 0"),
        rows=number("pixels of a tile", f"in range(1, min({TILE_ROWS}, out_w) + 1)"),
        across=number("tiles in a row of the result", "== ceil_div(out_w, rows)"),
        band=number("tiles of a band, of whole rows unless `direct`", "> 0 and (direct or band % across == 0)"),
        **more,
    )


_PREFETCH = "cache lines of the next panel fetched beside each {}"
_ROWS = "out_d * out_h * out_w"
SUMMED = Record(
    addend=reads(
        "u8 that those stored are added to before, 0 without",
        "n",
        f"images: addend_image, {_ROWS}: addend_row, sets: n_set",
        when="out == 'bytes'",
        optional=True,
        here="1",
    ),
    addend_image="bytes from image to image of it",
    addend_row="bytes from row to row",
    addend_first=flag("whether it is the first operand of the sum"),
    first_factor="f32 bits: what the first operand is multiplied by",
    second_factor="f32 bits: alike, the second",
    offset="f32 bits: what is added to both",
    sum_zero="zero_point, low, high and form of the sum: those of STORED are of what is added",
    sum_low="",
    sum_high="",
    sum_form="",
)
"""How the bytes that a kernel makes are added to those of another map, in the order and with the roundings of `add_u8`
(pointwise/steps.py).
"""
NO_SUM = dict.fromkeys(SUMMED, 0)
"""The slots with which nothing is added."""
AMX_CONV = _tiled("panel_bytes(nt, lines)", WORK, prefetch=_PREFETCH.format("line")) + STORED + SUMMED
_ITEM = "bytes of an element of {}: 4, f32, or 2, bf16"
_Y_Y = "elements from row to row of y"
AMX_REAL = Record(
    _tiled(
        "panel_bytes_real(nt, lines, planes, element)",
        REAL_WORK,
        direct=flag("whether x is the pixels of one row, which are copied as they follow one another"),
        in_place=flag("whether they are not copied: x is bf16, in whole lines or a part of one"),
        plane=number("bytes of a thread's scratch from plane to plane of a band", "> 0"),
        prefetch=_PREFETCH.format("product"),
        length=number("bytes of A's lines that count", f"in range(4, {LINE} + 1, 4)"),
        x_item=number(_ITEM.format("x"), "in (4, 2)"),
        y_item=number(_ITEM.format("y"), "in (4, 2)"),
        addend_item=number(_ITEM.format("the addend"), "in (4, 2)"),
        y=writes(
            "the result, whole",
            "y_item * n",
            "images * out_d * out_h: y_item * y_y, out_w: y_item * ldy, sets: y_item * n_set",
        ),
        y_y=_Y_Y,
    )
    + ending("images", _ROWS, columns="sets: 4 * n_set", forms=ALL_FORMS),
    addend=reads(
        "what is added first, 0 without",
        "addend_item * n",
        f"images: addend_item * addend_image, {_ROWS}: addend_item * addend_row, sets: addend_item * n_set",
        when="form == 0",
        optional=True,
        here="1",
    ),
)
"""A band's elements are of two bytes."""

DYNAMIC_NT, DYNAMIC_HEAD = 2, 3
"""Of amx_dynamic: tiles across a block, and numbers of a column before its weights: their sum, scale and bias."""
AMX_DYNAMIC = (
    _tiled(
        f"panel_bytes(nt, lines, {DYNAMIC_HEAD})",
        REAL_WORK,
        prefetch=_PREFETCH.format("line"),
        y=writes("the result, whole", "4 * n", "images * out_d * out_h: 4 * y_y, out_w: 4 * ldy, sets: 4 * n_set"),
        y_y=_Y_Y,
    )
    + ranges("images", _ROWS, "in (0, 1)")
    + ending("images", _ROWS, columns="sets: 4 * n_set")
)

AMX_BLOCKS = Record(
    DOT_BLOCKS.but("height few rounded"),
    config=reads("the 64 bytes of pack_amx.configuration for tiles of `rows` rows", "64"),
    rows=number("rows of a tile", f"in range(1, {TILE_ROWS} + 1)"),
    groups=number("groups of columns that are multiplied at a time", "> 0"),
    band=number("rows of A that are split at a time, whole blocks of tiles", f"> 0 and band % ({MT} * rows) == 0"),
    lines=number("lines of 64 bytes in a sum", f"== ceil_div(k, {LINE // 2})"),
    rs=number("bytes from row to row of a plane of A", f">= {LINE} * lines and rs % {LINE} == 0"),
    plane=number("bytes from plane to plane", "== band * rs"),
    notes=number("bytes of a thread's scratch before the notes of rows", f"== {PLANES} * plane"),
    note=number("bytes of a note: whether parts of the row may lose something, and its sum in each block", ">= 8"),
    panel=number("bytes before the tiles of a block of codes", f">= notes + band * note and panel % {LINE} == 0"),
    work=number(
        "bytes before the sums of two blocks of tiles and the totals of a band",
        f"== panel + groups * ceil_div(block * per_word, {LINE // 2}) * {CODES_NT * TILE_ROWS * LINE}",
    ),
    scratch=works(
        "scratch_bytes for each thread, 64-byte aligned", f"work + {2 * SUMS} + groups * band * {CODES_NT * LINE}"
    ),
)

BLOCKS = ((2, 2), (1, 4), (4, 1))
"""Tiles down and across: four sums hide the latency of a product, and then two loads each meet two products."""


def _byte_tiles(params: Mapping[str, Any]) -> str:
    return "byte tiles"


def _on_tiles(tier: Tier, params: Mapping[str, Any]) -> bool:
    return tier.tiles


def _exists(tier: Tier, params: Mapping[str, Any]) -> bool:
    return tier.tiles and (params["mt"], params["nt"]) in BLOCKS


def _has_parts(tier: Tier, params: Mapping[str, Any]) -> bool:
    return tier.tiles and (params["element"] == "bf16" or params["planes"] == 1)


def needs_parts(params: Mapping[str, Any]) -> tuple[str, ...]:
    """The CPU flags of products of an element."""
    return F16 if params["element"] == "f16" else BF16


_PARTS = {1: "tiles", 2: "tiles of two parts", 3: "tiles of three parts"}


def _real_tiles(params: Mapping[str, Any]) -> str:
    if params["element"] == "f16":
        return "f16 tiles"
    return _PARTS[params["planes"]]


_REALS = {"nt": (1, 2), "planes": (1, 2, 3), "element": ("bf16", "f16")}
_PARAMS = {"mt": (1, 2, 4), "nt": (1, 2, 4), "out": tuple(STORES)}

ROWS = (
    Row("amx_conv", "amx.amx_conv", "make_amx_conv", AMX_CONV, _PARAMS, _exists, True, unit=_byte_tiles),
    Row("amx_real", "amx.amx_real", "make_amx_real", AMX_REAL, _REALS, _has_parts, True, needs_parts, _real_tiles),
    Row("amx_dynamic", "amx.amx_dynamic", "make_amx_dynamic", AMX_DYNAMIC, {"nt": (DYNAMIC_NT,)}, _on_tiles, True,
        unit=_byte_tiles),
    Row("amx_blocks", "amx.amx_blocks", "make_amx_blocks", AMX_BLOCKS, {"bits": BITS}, _on_tiles, True,
        lambda params: BF16, lambda params: _PARTS[PLANES]),
)  # fmt: skip
