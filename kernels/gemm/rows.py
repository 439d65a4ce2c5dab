"""The kernels of matrix products in f32, and their records. Sizes are in elements, or as noted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.record import Record, flag, number, reads, works, writes
from ..core.table import Row, has_rounds, of_bytes, of_pairs, rounds
from ..isa.tiers import Tier, multiplies_small
from ..pointwise.rows import ALL_FORMS, NO_EPILOGUE, ending
from .pick_blocks import BITS, NV
from .pick_dot import F32_COSTS, FEW_COLUMNS, byte_widths

_PANELS = "panels(n, k)"
_PIXELS = "out_d * out_h * out_w"
_HEIGHT = "in range(1, most_rows + 1)"
DOT = Record(
    a=reads("A [batch, m, k]", "4 * k - beyond", "batch: item * a_stride, m: item * lda", over="beyond"),
    lda="elements from row to row of A",
    b=reads("packed panels [batch, panels, ...], those of this call's n columns", _PANELS, "batch: 4 * b_stride"),
    c=writes(
        "C, of which columns n0.. are written",
        "stored * n",
        "batch: stored * c_stride, m: stored * ldc",
        start="stored * n0",
    ),
    ldc="elements from row to row of C",
    m="rows of A and C",
    n=number("columns computed here", "<= most_columns"),
    n0=number("the first of them", ">= 0"),
    k=number("words of 4 bytes in a sum", "> 0"),
    batch="matrices",
    a_stride="elements from matrix to matrix of A",
    b_stride="words from matrix to matrix of the panels, 0 when all share one",
    c_stride="elements from matrix to matrix of C",
    height=number("rows of a tile, as registers allow; the last one has fewer where m isn't a multiple", _HEIGHT),
    block=number("such tiles of rows computed before the next panel", "> 0"),
    column_parts="parts of the panels, by which threads are a grid; others split the tiles of rows",
)

DOT_FEW = Record(
    a=reads("A [batch, m, k]", "4 * k", "batch: 4 * a_stride, m: 4 * lda"),
    lda="elements from row to row of A",
    b=reads("B [batch, k, n], or [batch, n, k] where `columns`", "4 * k * n", "batch: 4 * b_stride"),
    c=writes("C [batch, m, n]", "4 * n", "batch: 4 * c_stride, m: 4 * ldc"),
    ldc="elements from row to row of C",
    columns=number(
        "0, or how columns are summed: 1, each row with the only one; 2, several rows with a few",
        f"== 0 or n <= {max(FEW_COLUMNS.values())}",
    ),
    start=reads("f32 [8, n] that sums of columns begin with", "32 * n if columns else 0"),
    m="rows of A and C",
    n="columns of B and C",
    k="columns of A, rows of B",
    batch="matrices",
    a_stride="elements from matrix to matrix of A",
    b_stride="elements from matrix to matrix of B, 0 when all share one",
    c_stride="elements from matrix to matrix of C",
    block=number("columns of C that one thread makes at a time", "> 0"),
) + ending("batch", "m")

DOT_BLOCKS = Record(
    a=reads("A [batch, m, k]", "4 * k", "batch * m: 4 * lda"),
    lda="elements from row to row of A",
    b=reads("what pick_blocks.pack_blocks makes", "group_bytes", f"ceil_div(n, {NV} * lanes): group"),
    c=writes("C [batch, m, n]", "4 * n", "batch * m: 4 * ldc"),
    ldc="elements from row to row of C",
    m="rows of A and C",
    n="columns",
    k=number("columns of A, a multiple of the codes of a word", "> 0 and k % per_word == 0"),
    batch="matrices, the rows of one behind those of the other",
    block=number("words of codes that have a scale in common; the last ones may be fewer", "> 0"),
    zeros="whether blocks have zero points",
    group="bytes from group to group",
    height=number("rows of a tile", _HEIGHT),
    few="whether products are summed while codes are read; else a group is decoded first",
    rounded=number(
        "rows of A that are rounded to bytes at a time, of `few`; 0: rows stay f32", "== 0 or (few and byte_dot)"
    ),
    scratch=works(
        "for each thread [1 + k, columns of a group] f32 unless `few`, or rows that are rounded",
        f"rounded * row_bytes if few else {4 * NV} * (1 + k) * lanes",
    ),
    scratch_bytes=number("bytes", ">= 0"),
) + ending("batch", "m")

CONV = Record(
    x="address of the input [images, d, h, w, sets * channels]",
    w=reads("packed panels [sets, panels, ...], those of this call's channels", f"sets * {_PANELS}"),
    y=writes(
        "the result, whole",
        "stored * n",
        f"images * {_PIXELS}: stored * ldy, sets: stored * n_set",
        start="stored * n0",
    ),
    taps=reads("[k / length] int64: bytes from a pixel to where each run begins", "8 * (k // length)"),
    inside=reads(
        "[out_d * out_h, 2] int64: for each row of the result the first run that is not padding alone, and the one "
        "behind the last",
        "16 * out_d * out_h",
    ),
    scratch="address of scratch_bytes for each thread, 64-byte aligned",
    scratch_bytes="bytes",
    images="how many",
    sets="groups",
    out_d="slices of the result",
    out_h="rows of it",
    out_w="pixels of a row",
    n=number("channels of each group computed here", "> 0 and n <= most_columns"),
    n0=number("the first of them", ">= 0"),
    n_set=number("channels of a group", ">= 0"),
    k=number("words of 4 bytes in a sum", "% length == 0"),
    ldy="elements from pixel to pixel of y",
    x_image="bytes from image to image of x",
    x_set="bytes from group to group",
    x_z="bytes from slice to slice",
    x_y="bytes from row to row",
    x_first="bytes from a row's start to the first pixel that is copied",
    d="slices of x",
    h="rows of x",
    k_d=number("slices of the kernel, or of a band", "> 0"),
    stride_z="slices from output to output",
    dilation_z="slices from tap to tap, 0 with a shift",
    shift="rows by which each further slice of a band lies lower, where these are the rows of dilated taps; else 0",
    pad_z="slices of padding before",
    stride_y="rows from output to output",
    pad_y="rows of padding before",
    height=number("outputs of a tile, as registers allow; the last one of a row or band has fewer", _HEIGHT),
    band=number("rows of the result that a band is for", "> 0"),
    reach="rows of a band for the first of them",
    step_y="rows of x from row to row of a band",
    move_y="rows of a band for each further one of the result",
    left="elements of padding that a row of a band begins with",
    pixels="runs copied after that",
    run="elements of a run",
    x_step="bytes from run to run in x",
    pixel_step="bytes from run to run in a band",
    right="elements of padding after them",
    band_z="bytes from slice to slice of a band",
    band_y="bytes from row to row",
    rs="bytes from pixel to pixel, in a band or `direct` in x",
    gs="bytes from one row of outputs to the next, in a band or `direct` in x",
    length=number("words of a run: those of a sum lie in runs of as many", "> 0"),
    direct="whether x is read without a band",
    column_parts="parts of the panels, by which threads are a grid; others split bands",
    fill="the word whose bytes padding repeats",
)

_CONV_APART = Record(
    CONV,
    y=writes(
        "the result, whole",
        "stored * n",
        "images * out_d * out_h: stored * y_y, out_w: stored * ldy, sets: stored * n_set",
        start="stored * n0",
    ),
    y_y="elements from row to row of y; a tile goes on in the next row only where that is out_w * ldy",
)

PACK = Record(
    b=reads("B [batch, k, n]", "4 * n", "batch: 4 * b_stride, k: 4 * ldb"),
    ldb="f32 from row to row of B",
    packed=writes("what is made: [batch, panels, 1 + k, nv * lanes] f32", f"batch * {_PANELS}"),
    n="columns",
    k=number("rows", "> 0"),
    batch="matrices",
    b_stride="f32 from matrix to matrix of B",
)

OVERLAPS = Record(
    t=reads("the products", "4 * sets * images * d * h * w * k_d * k_h * k_w * n"),
    y=writes("the result", "stored * sets * n", f"images * {_PIXELS}: stored * ldy"),
    ldy="elements from pixel to pixel of y",
    bias=reads("[sets * n] f32", "4 * sets * n"),
    scratch=works("scratch_bytes for each thread", "4 * out_w * n"),
    scratch_bytes="bytes, at least those of a row of y as f32",
    images="how many",
    sets="groups",
    n="channels of a group of the result",
    d="slices of the input",
    h="rows of a slice",
    w="pixels of a row",
    out_d="slices of the result",
    out_h="rows of a slice",
    out_w="pixels of a row",
    k_d="slices of the kernel",
    k_h="rows of it",
    k_w="pixels of a row",
    stride_z=number("slices of the result from input to input", "> 0"),
    stride_y=number("rows", "> 0"),
    stride_x=number("pixels", "> 0"),
    dilation_z="slices from tap to tap",
    dilation_y="rows",
    dilation_x="pixels",
    pad_z="slices that are cut off before the result",
    pad_y="rows",
    pad_x="pixels",
)

COL2IM = OVERLAPS + ending("images", _PIXELS, "sets * n")

WINOGRAD = Record(
    x="address of the input [images, d, h, w, sets * channels]",
    w=reads(
        "for each set the weights in panels [places, panels, ...], then the bias",
        "sets * 4 * (winograd_places * (k + 1) + 1) * ceil_div(n, nv * lanes) * nv * lanes",
    ),
    y="address of the result [images, out_d * outputs, sets * n]",
    scratch=works("a band, its transform, sums, outputs, 64-byte aligned", "scratch_bytes"),
    scratch_bytes="bytes",
    images="how many",
    out_d="slices of the result",
    out_h="rows of a slice",
    out_w="pixels of a row",
    outputs="pixels of a slice: the last row may have fewer",
    y_z="pixels of y from slice to slice",
    y_y="pixels of y from row to row",
    sets="groups",
    n="channels of the result, of each group",
    k=number("f32 in a sum: channels of all blocks of taps", "> 0"),
    channels=number("of x, of each group", "> 0"),
    k_d=number("slices of the kernel", "> 0"),
    parts_y=number("blocks of three rows of it", "> 0"),
    parts_x=number("blocks of three columns of it, 1 where tiles are tall", "> 0"),
    ldy="f32 from pixel to pixel of y",
    **CONV.only("x_image x_set x_z x_y x_first d h stride_z dilation_z pad_z pad_y"),
    band=number("rows of tiles that a band is for", "> 0"),
    slices=number("slices of the result whose bands are multiplied together", "> 0"),
    across=number("tiles in each", "> 0"),
    height=number("Winograd tiles in a tile of dot, as registers allow; the last of a band has fewer", _HEIGHT),
    left="zeros that a row of a band begins with",
    pixels="runs copied after that",
    run="f32 of a run",
    lacking="f32 that the run of the last row of x has fewer; 0 where rows have several runs",
    **CONV.only("x_step pixel_step"),
    right="zeros after them",
    **CONV.only("band_z band_y"),
    pixel="bytes from pixel to pixel of a band",
    v_start="bytes of scratch before the transformed inputs",
    v_row="bytes of them from tile to tile",
    v_plane="bytes of them from place to place",
    s_start="bytes of scratch before the sums",
    s_plane="bytes of them from place to place",
    o_start="bytes of scratch before m rows of outputs of one panel, which wait for the chain",
    column_parts="parts of the panels, by which threads are a grid; others split rows of tiles",
) + ending("images", "out_d * outputs", "sets * n")

STORED_U8 = Record(
    zero_point="what is added to rint(sum * multiplier)", low="the least number that is stored", high="the greatest"
)
STORED = STORED_U8 + Record(
    form="0: u8, or f32 (low and high are their bits); 128: s8, where zero_point, low and high are 128 more than those "
    "of the result, as of a u8; 1: i32, the sums themselves"
)
STORES = {"bytes": 1, "words": 4}
"""The results of a kernel, u8 and s8 or f32 and i32, and the bytes of an element."""
DOT_INT8 = DOT + STORED
CONV_INT8 = _CONV_APART + STORED
COL2IM_INT8 = OVERLAPS + Record(multipliers=reads("[sets * n] f32", "4 * sets * n")) + STORED
"""The products and the bias are i32."""

ROW_INT8 = (
    Record(
        a=reads("A [k words]", "4 * (k - chains) + 1", over="4 * chains - 1"),
        b=reads("packed panels, those of this call's n columns, with weights of 0 for what A lacks", _PANELS),
        c=writes("C [n0 + n or more], of which columns n0.. are written", "stored * n", start="stored * n0"),
        n="columns computed here",
        n0=number("the first of them", ">= 0"),
        k=number("words of 4 bytes in a sum, a multiple of pick_int8.chains", "> 0 and k % chains == 0"),
        signs="what every word of A is xored with: 0x80808080 where A is s8, else 0",
    )
    + STORED
)

PACK_INT8 = Record(
    b=reads("B [batch, k, n] u8", "n", "batch: b_stride, k: ldb", over="short(n, nv * lanes)"),
    ldb="bytes from row to row of B",
    packed=writes("what pack_int8 makes of B - 128 with `rowsum`", "batch * panels(n, ceil_div(k, 4))"),
    n="columns",
    k=number("rows of B", "> 0"),
    batch="matrices",
    b_stride="bytes from matrix to matrix of B",
    minus_zero_a="minus the zero point of A",
    start="what each sum begins with, but for minus_zero_a * (sum of the column's s8)",
    multiplier="of all columns, f32 bits",
    minus_zero_b="minus the zero point of B - 128",
)

PACKED_WIDTHS = (2, 4)
"""Vectors of a panel of these."""

RANGE_BYTES = 16
"""Bytes of a range: scale (f32), minus the u8 for 0.0 (i32), steps per unit and the s8 for 0.0 (f32 both)."""

GRIDS = ("symmetric", "asymmetric", "onnx")

EXTREMES = Record(
    x=reads("[images, count] f32", "4 * images * count"),
    images="how many",
    count="numbers of an image",
    parts=number("of an image, whose extremes are found separately", "> 0"),
    extremes=writes("the least and greatest f32 of each or 0.0, both NaN where one isn't finite", "8 * images * parts"),
)

_RANGES = "(images if per_image else min(images, 1))"
ROUND = Record(
    x=reads("[images, rows, run] f32", "4 * images * rows * run", here="out == 'f32'"),
    extremes=reads("what the kernel `extremes` made of x", f"8 * {_RANGES} * parts"),
    parts=number("of an image, or of x", "> 0"),
    per_image=flag("ranges from image to image: 1, or 0 where x has one"),
    ranges=writes("[images] ranges, or of one, which are made", f"{RANGE_BYTES} * {_RANGES}"),
    grid=number("which numbers a range has: its operator's grid in GRIDS", f"in range({len(GRIDS)})"),
    y=writes(
        "[images, top + rows + bottom, left + run + right] u8 or f32, with what stands for 0.0 around x",
        "bytes_of(out) * images * (top + rows + bottom) * (left + run + right)",
    ),
    whole="1: f32 are whole numbers of steps, 0: the reals that these stand for",
    images="how many",
    rows="of an image",
    run="numbers of a row",
    top="rows above",
    left="numbers before a row",
    bottom="rows below",
    right="numbers behind a row",
)


def ranges(images: str, rows: str, by_row: str = "== by_row") -> Record:
    """The slots of the ranges of a dynamic kernel's operands."""
    loops = f"{images}: {RANGE_BYTES} * per_image, {rows}: {RANGE_BYTES} * per_row"
    return Record(
        ranges=reads("the ranges that A or x was rounded by", f"{RANGE_BYTES}", loops),
        per_image=number("ranges from image to image (batch to batch)", ">= 0"),
        per_row=number("ranges from row to row: 1, or 0 where an image has one", by_row),
    )


RANGES = ranges("batch", "m")
_LATER = Record(
    later=number("whether a chain is walked over blocks or bands, whose sums lie in y until then", "in (0, walks)")
)
_DOT_ENDING = ending("batch", "m", start="4 * n0") + _LATER
_CONV_ENDING = ending("images", _PIXELS, columns="sets: 4 * n_set", start="4 * n0") + _LATER
DOT_DYNAMIC = DOT + RANGES + _DOT_ENDING
CONV_DYNAMIC = _CONV_APART + ranges("images", _PIXELS) + _CONV_ENDING
NO_ENDING = {**NO_EPILOGUE, "later": 0}
"""The slots with which results of these are the sums."""
DOT_F32 = DOT + _DOT_ENDING
CONV_F32 = _CONV_APART + _CONV_ENDING

ITEM = {"f32": 4, "bf16": 2}
"""Bytes of an element."""


def _bf16(loops: Record, images: str, rows: str, step: str) -> Record:
    """The slots of products that read or make bf16; step: bytes of an addend from group to group."""
    added = reads(
        "what is added first, 0 without",
        "addend_item * n",
        f"{images}: addend_item * addend_image, {rows}: addend_item * addend_row{step}",
        when="form == 0",
        start="addend_item * n0",
        optional=True,
        here="stored == addend_item",
    )
    return Record(
        loops,
        form=number("what is made of sums: its place in FORMS, then LONG_FORMS", f"in range({ALL_FORMS})"),
        addend=added,
        addend_item=number("bytes of an addend: 4, f32, or 2, bf16", "in (4, 2)"),
        later=number("0: a chain is walked behind each tile", "== 0"),
    )


DOT_BF16 = _bf16(DOT_F32, "batch", "m", "")
CONV_BF16 = _bf16(CONV_F32, "images", _PIXELS, ", sets: addend_item * n_set")

ROUND_BF16 = Record(
    x=reads("[rows, c] f32", "4 * c", "rows: 4 * ldx"),
    ldx="f32 from row to row of it",
    y=writes("[rows, ldy] bf16: zeros behind c", "2 * ldy", "rows: 2 * ldy"),
    ldy=number("elements of a row of y", ">= c"),
    rows="how many",
    c=number("elements of a row of x", "> 0"),
)

_WIDTHS = {"nv": (1, 2, 3, 4)}
_F32 = {"nv": (*_WIDTHS["nv"], 8)}
_WINOGRAD = {"m": (2, 4), "tall": (False, True), "nv": (1, 2)}
_STORED: dict[str, tuple[Any, ...]] = {"out": tuple(STORES), "rowsum": (False, True), "small": (False, True)}
_DYNAMIC = {**_WIDTHS, "rowsum": (False, True), "small": (False, True)}
_BY_ROW = {**_DYNAMIC, "per_row": (False, True), "narrow": (False, True)}


_HALVES = {"half": (False, True)}
_BYTES = _WIDTHS | _STORED | _HALVES
_REALS = {**_F32, "element": tuple(ITEM), "out": tuple(ITEM)}


def _in_pairs(tier: Tier, params: Mapping[str, Any]) -> bool:
    """A or C is bf16: `dot` and `conv` are for f32 in both. On tiers with tiles, which compute layers, only the product
    of recurrent layers is left.
    """
    found = tier.masks and bool(rounds(params))
    return found and (not tier.tiles or (params["element"], params["out"]) == ("bf16", "f32"))


def _of_layers(tier: Tier, params: Mapping[str, Any]) -> bool:
    return not tier.tiles and _in_pairs(tier, params)


def _wide(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Panels of eight vectors are for single rows, whose sums take more than 16 registers then."""
    return params["nv"] <= 4 or tier.registers >= 32


def _whole_or_half(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Half vectors are for those of 64 bytes, half of which CPUs multiply in half the time or in the same."""
    return params["nv"] - 0.5 in F32_COSTS.widths(tier) if params["half"] else _wide(tier, params)


def _of_bytes(tier: Tier, params: Mapping[str, Any], single: bool = False) -> bool:
    """The widths of panels of s8 weights; single: for single rows."""
    small = params["small"]
    if small and (params["rowsum"] or not multiplies_small(tier)):
        return False
    found = byte_widths(params.get("out", "words"), params["rowsum"], small and not single, tier)
    return params["nv"] - 0.5 * params.get("half", False) in found


def _of_a_row(tier: Tier, params: Mapping[str, Any]) -> bool:
    """As `_of_bytes`, for a single row; panels of eight vectors, too."""
    return _of_bytes(tier, params, single=True) or (params["nv"] == 8 and _wide(tier, params) and not params["small"])


def _tall_by_four(tier: Tier, params: Mapping[str, Any]) -> bool:
    return params["m"] == 4 or not params["tall"]


def _one_range(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Formats that give each row a range have weights without zero points; bytes are widened where that is needed."""
    found = not (params["per_row"] and params["rowsum"])
    found = found and not (params["narrow"] and (tier.byte_dot or params["small"]))
    return found and _of_bytes(tier, params)


ROWS = (
    Row("dot", "gemm.dot", "make_dot", DOT_F32, _F32 | _HALVES, _whole_or_half, product=True),
    Row("dot_few", "gemm.dot_few", "make_dot_few", DOT_FEW),
    Row("dot_blocks", "gemm.dot_blocks", "make_dot_blocks", DOT_BLOCKS, {"bits": BITS}, product=True),
    Row("conv", "gemm.conv", "make_conv", CONV_F32, _WIDTHS | _HALVES, _whole_or_half, product=True),
    Row("dot_bf16", "gemm.dot", "make_dot_bf16", DOT_BF16, _REALS, _in_pairs, True, rounds, of_pairs),
    Row("conv_bf16", "gemm.conv", "make_conv_bf16", CONV_BF16, _REALS | _WIDTHS, _of_layers, True, rounds, of_pairs),
    Row("round_bf16", "gemm.round_bf16", "make_round", ROUND_BF16, {}, has_rounds, needs=rounds),
    Row("winograd", "gemm.winograd", "make_winograd", WINOGRAD, _WINOGRAD, _tall_by_four, product=True),
    Row("col2im", "gemm.col2im", "make_col2im", COL2IM),
    Row("pack_b", "gemm.pack_b", "make_pack", PACK, _F32, _wide),
    Row("dot_int8", "gemm.dot", "make_dot_int8", DOT_INT8, _BYTES, _of_bytes, True, unit=of_bytes),
    Row("row_int8", "gemm.row_int8", "make_row_int8", ROW_INT8, _F32 | _STORED, _of_a_row, product=True, unit=of_bytes),
    Row("conv_int8", "gemm.conv", "make_conv_int8", CONV_INT8, _BYTES, _of_bytes, True, unit=of_bytes),
    Row("col2im_int8", "gemm.col2im_int8", "make_col2im_int8", COL2IM_INT8, {"out": tuple(STORES)}),
    Row("pack_b_int8", "gemm.pack_b_int8", "make_pack_int8", PACK_INT8, {"nv": PACKED_WIDTHS}),
    Row("extremes", "gemm.dynamic_round", "make_extremes", EXTREMES),
    Row("dynamic_round", "gemm.dynamic_round", "make_round", ROUND, {"out": ("u8", "f32")}),
    Row("dot_dynamic", "gemm.dynamic_layer", "make_dot", DOT_DYNAMIC, _BY_ROW, _one_range, product=True, unit=of_bytes),
    Row("conv_dynamic", "gemm.dynamic_layer", "make_conv", CONV_DYNAMIC, _DYNAMIC, _of_bytes, True, unit=of_bytes),
)
