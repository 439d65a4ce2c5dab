"""Rows of the table for depthwise convolution, pools and means, of f32, bf16 and bytes. Tensors are channels last."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Any

from ..core.record import Record, Slot, flag, number, reads, works, writes
from ..core.table import Row, has_rounds, of_bytes, of_pairs, rounds
from ..gemm.rows import STORED, STORED_U8, STORES
from ..isa.lanes import PARTS
from ..isa.tiers import Tier
from ..pointwise.rows import ALL_FORMS, ending


def _maps(item: str, y_item: str, over: str, deep: bool = True) -> Record:
    """The slots of x and y, of elements of `item` and `y_item` bytes. over: elements that may be read behind a pixel;
    deep: whether there are planes."""
    planes = ("d * ", "out_d * ") if deep else ("", "")
    x_loops, y_loops = f"n * {planes[0]}h * w: {item} * ldx", f"n * {planes[1]}out_h * out_w: {y_item} * ldy"
    return Record(
        x=reads("x [n, h, w, channels]", f"{item} * (c // repeat)", x_loops, over=f"{item} * ({over})"),
        ldx="elements from pixel to pixel of x",
        y=writes("y [n, out_h, out_w, c]", f"{y_item} * c", y_loops),
        ldy="elements from pixel to pixel of y",
        n="images", h="rows of x", w="columns of x", c=number("channels of y", "% repeat == 0"),
        out_h="rows of y", out_w="columns of y",
    )  # fmt: skip


PADS = Record(pad_y="rows of padding above x", pad_x="columns of padding before it")


def _windows(maps: Record, planes: str = "> 0", k_w: str = "> 0", block: str = "> 0 and block % width == 0") -> Record:
    """The record of a kernel over windows; planes, k_w and block: conditions on the numbers of planes, columns of the
    window and channels in a block."""
    return maps + Record(
        k_h=number("rows of the window", "> 0"), k_w=number("columns of it", k_w),
        stride_y=number("rows of x from output to output", "> 0"), stride_x=number("columns likewise", "> 0"),
        dilation_y=number("rows of x from tap to tap", "> 0"), dilation_x=number("columns likewise", "> 0"),
    ) + PADS + Record(
        d=number("planes of x [n, d, h, w, channels]", planes),
        out_d=number("planes of y [n, out_d, out_h, out_w, c]", planes),
        k_d=number("planes of the window", planes),
        stride_z=number("planes of x from output to output", "> 0"),
        dilation_z=number("planes from tap to tap", "> 0"),
        pad_z="planes of padding before x",
        band=number("rows of y computed for a block of channels before the next; any gives the same bits", "> 0"),
        run=number("columns of y likewise", "> 0"),
        block=number("channels computed for a row before the next row", block),
    )  # fmt: skip


FETCH = Record(fetch=flag("1: what the next row of outputs takes is fetched from memory; either gives the same bits"))
FAR_PADS = Record(
    far_pad_z="planes of padding after x", far_pad_y="rows of padding below it", far_pad_x="columns of padding after it"
)
"""Padding that averages may count."""


def _of_channels(meaning: str, run: str = "4 * c") -> Slot:
    """The address of an operand that is read in whole vectors of channels."""
    return reads(meaning, run, over="4 * short(c, width)")


def _parameters(lines: str = "k_d * k_h * k_w", shape: str = "window...", c: str = "c") -> Record:
    weights = _of_channels(f"weights [{shape}, {c}], dense", f"4 * {lines} * ({c})")
    return Record(weights=weights, bias=_of_channels(f"bias [{c}]", f"4 * ({c})"))


PARAMETERS = _parameters()
REPEATED = Record(multiplier="channels of y that read a channel of x, one behind the other")
_LAST = "max((ceil_div(c, width) - 1) * width // repeat + width - c // repeat, 0)"
"""Elements of x behind a pixel that the loads for the last vectors of y's channels read."""
_F32 = _maps("4", "4", _LAST)
_ENDING: dict[str, Any] = {
    "images": "n",
    "rows": "out_d * out_h * out_w",
    "n": "c",
    "over": "4 * short(c, width)",
    "here": "0",
}
_FIXED = "== size and stride * dilation_x % stride_x == 0"
"""Conditions on a window's columns: as many as the kernel is compiled for, outputs of a tile spaced as the taps are."""
_ITEM = "(2 if narrow else 4)"
COPIED = Record(
    copied=number(
        "elements from pixel to pixel of a copy of a block's channels in the rows that a band reads; 0: there is none; "
        "either gives the same bits",
        "== 0 or copied >= block",
    ),
    scratch=works(
        "the copy, behind one of the weights",
        f"({_ITEM} * ((band - 1) * stride_y + (k_h - 1) * dilation_y + 1) * w + 4 * k_h * k_w) * copied",
        when="copied > 0",
    ),
    scratch_bytes="bytes of it that each thread has",
)
DEPTHWISE = (
    _windows(_maps(_ITEM, _ITEM, _LAST), "== 1", _FIXED)
    + FETCH
    + COPIED
    + PARAMETERS
    + ending(**_ENDING, forms=ALL_FORMS)
)
_OF_ELEMENT = "(2 if element == 'bf16' else 4)"
GROUPED = (
    _windows(_maps(_OF_ELEMENT, "y_item", _LAST), "== 1", _FIXED)
    + FETCH
    + Record(y_item=number("bytes of an element of y", f"in (4, {_OF_ELEMENT})"))
    + _parameters(f"k_h * k_w * (group * {_OF_ELEMENT} // 4)", "window..., group, or half of it in words of two bf16")
    + ending(**_ENDING, forms=ALL_FORMS)
)
DEPTHWISE_ANY = (
    _windows(_F32)
    + _parameters(c="across or c")
    + REPEATED
    + Record(across="where vectors run across pixels: weights of a tap (channels repeated), taps by columns; else 0")
    + ending(**_ENDING, forms=ALL_FORMS)
)
_COUNTED = FAR_PADS + Record(include_pad="1: an average counts the padded image's places")
POOL = _windows(_F32, k_w=_FIXED) + FETCH + _COUNTED + ending(**_ENDING)
_ACROSS = "c == ldx == ldy == d == out_d == k_d == stride_x == 1"
POOL_ANY = (
    _windows(_F32)
    + _COUNTED
    + Record(across=number("1: pixels are in lanes, and results are what is pooled", f"in (0, 1 * ({_ACROSS}))"))
    + ending(**_ENDING)
)
POOL_BF16 = _windows(_maps("2", "2", "max(2 * lanes - c, 0)"), block="> 0")
"""Kernels of reals. y overlaps nothing else, but an operand of the epilogue with its rows may be y."""

ZERO_X = Record(zero_x="the zero point of x")
PACKED = Record(packed=reads("what pack_depthwise_int8 makes", f"packed_vectors * (2 + terms) * {PARTS} * vector"))
DEPTHWISE_INT8 = (
    _windows(_maps("1", "1", "max(piece - c, 0)"), "== 1", block="== vector")
    + Record(fill=reads("zero points of x, read beside it", "piece", "blank: ldx"))
    + PACKED
    + STORED
)
DEPTHWISE_INT8_ACROSS = (
    _maps("1", "1", "0", deep=False)
    + PADS
    + ZERO_X
    + PACKED
    + STORED
    + Record(
        scratch=works(
            "scratch of all threads",
            "max(lines * line, (lines - 1) * line + tap + ceil_div(out_w * c, vector) * vector)",
        ),
        scratch_bytes="bytes of it that each thread has",
        line=number("bytes from padded line to line in scratch", ">= max(stride * plane, tap + out_w * c)"),
        plane=number(
            "bytes of a plane of a line: one for each remainder of columns by the stride",
            ">= pad_x * c and plane % c == 0",
        ),
        lines=number("lines that are kept", "> scheme.lines[-1]"),
        period=number("vectors of y after which the packed constants repeat", "> 0"),
    )
)
DEPTHWISE_INT8_PAIRS = (
    _maps("1", "1", "ceil_div(c, block) * block + lanes - 1 - c", deep=False)
    + PADS
    + ZERO_X
    + Record(
        k_h=number("rows of the window", ">= 4"), k_w=number("columns of it", "> 0"),
        block=number("channels that are computed together", "> 0"),
        band=number("rows of y from lines that are made at once; any gives the same bits", "> 0"),
        across=number("words from tap to tap of the packed constants: channels, repeated", "> 0"),
        pairs=number("of rows of the window, wherever it begins", "> 1"),
        packed=reads("what pack_pairs makes", "ceil_div(c, block) * 4 * across * (2 + k_w * pairs * 2 // stride)"),
        blank=number("bytes of scratch that are zero points of x", ">= w * block + lanes"),
        row=number("bytes from row to row of results in scratch", ">= ceil_div(out_w * block, strip) * strip"),
        line=number("bytes from line to line in scratch", ">= 4 * (stride * plane + strip) and line % 4 == 0"),
        plane=number("words of a plane of a line: one for each remainder of columns by the stride", "% block == 0"),
        scratch=works("scratch of all threads", "blank + most * row + pair_lines(band, k_h) * line"),
        scratch_bytes="bytes of it that each thread has",
    )
    + STORED
)  # fmt: skip
DEPTHWISE_INT8_ANY = _windows(_maps("1", f"{STORES}[out]", _LAST)) + PARAMETERS + REPEATED + ZERO_X + Record(
    multipliers=_of_channels("[c] f32")
) + STORED  # fmt: skip
"""The weights are int32 less their zero points, as pick_depthwise_int8.halves makes them, and the bias is int32."""
POOL_INT8 = _windows(_maps("1", "1", "max(vector - c, 0)"), "== 1", block="> 0") + _COUNTED + Record(
    average="1: sums are divided by their count", ratio="scale of x by scale of y: the bits of an f64"
) + ZERO_X + STORED_U8  # fmt: skip
"""Kernels of u8 x; y is bytes, where no parameter says otherwise, and overlaps nothing else."""


GROUP = 3
"""Taps of a row that kernels for any window add together, where outputs are as far apart as taps, or twice as far."""

STRIP = 2
"""Vectors of a tile's row, where they run across pixels."""
UNROLLED_ROWS = (3, 5, 7)
"""Rows of the windows that have a body of their own there."""


PAIR_ROWS = {1: (4, 6), 2: (2, 4)}
"""Rows of outputs that are computed together from pairs of bytes, few of them and many, by the stride."""
MOST_PAIR_ROWS = max(many for _, many in PAIR_ROWS.values())


def pair_rows(rows: int) -> int:
    """Pairs of rows of x that a window of so many rows spans, wherever it begins."""
    return rows // 2 + 1


def has_across(tier: Tier, rows: int) -> bool:
    """Whether vectors can run across pixels for windows of so many rows: any that are unrolled, or have as many taps in
    a column as a tile has rows but one. Loads under a mask must be an instruction.
    """
    return tier.lanes >= 8 and (rows in UNROLLED_ROWS or rows >= wide_tile(tier, STRIP) - 1)


def across_channels(channels: int, lanes: int) -> int:
    """How many weights of a tap are stored where vectors run across pixels: whole vectors until channels begin at a
    vector's start again, and behind them what is computed together with the last of these.
    """
    return (channels // gcd(channels, lanes) + STRIP - 1) * lanes


def wide_tile(tier: Tier, vectors: int) -> int:
    """Outputs in a tile of windows of other than 3 columns: as many as the pipelines of multiply-adds want sums, where
    there are registers for them."""
    return 8 if vectors == 1 and tier.registers >= 32 else 7


def _has_depthwise(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Wide tiles are for the most common window; sums of two vectors want many registers, and where there are these,
    the kernel for any window is as fast for wide ones. Windows of one column have no other tap that outputs could be
    apart by.
    """
    size, many = params["size"], tier.registers >= 32
    if size == 1 and params["stride"] > 1 or size > 7 and many or not has_rounds(tier, params):
        return False
    wide = 7 if "group" in params else wide_tile(tier, params["vectors"])
    return (size == 3 or params["tile"] == wide) and (params["vectors"] == 1 or many)


def _has_grouped(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Several groups fill a vector. As for windows of each channel, wide tiles and windows of one column are few; those
    of bf16 are for the most common windows.
    """
    usual = {"vectors": 1, **params}
    paired = params["tile"] == 7 and (params["size"] == 3 or (params["size"], params["stride"]) == (5, 1))
    common = params["element"] == "f32" or paired
    return params["group"] < tier.lanes and common and _has_depthwise(tier, usual)


def _has_any(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Channels that are repeated come one vector at a time."""
    return params["vectors"] == 1 or not params["repeated"]


def _has_pool(tier: Tier, params: Mapping[str, Any]) -> bool:
    """The most common windows."""
    common = {(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (5, 1)} | ({(3, 3)} if params["op"] == "max" else set())
    return (params["size"], params["stride"]) in common


_UNROLLED: dict[str, tuple[Any, ...]] = {"size": (3, 5), "stride": (1, 2), "wide": (False, True)}


def _bytes_fit(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Whether the tier multiplies weights of bytes, unless they are wide, and a piece of a vector has 16 bytes. As few
    channels as make four pieces are for kernels of 3x3 only.
    """
    pieces = params.get("pieces", 1)
    return (params["wide"] or tier.byte_dot) and 4 * tier.lanes >= 16 * pieces and (pieces < 4 or params["size"] == 3)


def _has_pairs(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Elsewhere bytes are multiplied in fours, or there are vectors of 16 numbers, for which it was not measured."""
    return not tier.byte_dot and tier.registers < 32


ROWS = (
    Row("depthwise", "window.depthwise", "make_depthwise", DEPTHWISE,
        {"size": (1, 3, 5, 7, 9, 11), "stride": (1, 2), "tile": (7, 8), "vectors": (1, 2), "narrow": (False, True)},
        _has_depthwise, product=True, needs=rounds),
    Row("grouped", "window.depthwise", "make_grouped", GROUPED,
        {"size": (1, 3, 5), "stride": (1, 2), "tile": (7, 8), "group": (2, 4, 8), "element": ("f32", "bf16")},
        _has_grouped, product=True, needs=rounds, unit=of_pairs),
    Row("depthwise_any", "window.depthwise_any", "make_depthwise_any", DEPTHWISE_ANY,
        {"vectors": (1, 2), "repeated": (False, True)}, _has_any, product=True),
    Row("pool", "window.pool", "make_pool", POOL,
        {"op": ("max", "average"), "size": (1, 2, 3, 5), "stride": (1, 2, 3)}, _has_pool),
    Row("pool_any", "window.pool_any", "make_pool_any", POOL_ANY, {"op": ("max", "average", "lp1", "lp2")}),
    Row("pool_bf16", "window.pool_bf16", "make_pool", POOL_BF16, exists=has_rounds),
    Row("depthwise_int8", "window.depthwise_int8", "make_depthwise", DEPTHWISE_INT8,
        {**_UNROLLED, "pieces": (1, 2, 4)}, _bytes_fit, product=True, unit=of_bytes),
    Row("depthwise_int8_across", "window.depthwise_int8_across", "make_depthwise_across", DEPTHWISE_INT8_ACROSS,
        _UNROLLED, _bytes_fit, product=True, unit=of_bytes),
    Row("depthwise_int8_window", "window.depthwise_int8_window", "make_depthwise_window", DEPTHWISE_INT8,
        {"wide": (False, True)}, _bytes_fit, product=True, unit=of_bytes),
    Row("depthwise_int8_pairs", "window.depthwise_int8_pairs", "make_depthwise_pairs", DEPTHWISE_INT8_PAIRS,
        {"stride": (1, 2)}, _has_pairs, product=True, unit=of_bytes),
    Row("depthwise_int8_any", "window.depthwise_any", "make_depthwise_any_int8", DEPTHWISE_INT8_ANY,
        {"out": tuple(STORES)}, product=True, unit=of_bytes),
    Row("pool_int8", "window.pool_int8", "make_pool", POOL_INT8,
        {"op": ("max", "sum")}),
)  # fmt: skip
