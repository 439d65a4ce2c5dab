"""The data-movement kernels: their records and their rows of the table.

Strides, offsets and runs are bytes (`..._s` in the source, `..._d` in the destination), the rest are elements, unless a
slot says otherwise. copy_plan.py, take_plan.py, gather_scatter_plan.py and resize_plan.py fill the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..core.record import Record
from ..core.table import Row
from ..isa.tiers import Tier

WORDS = (1, 2, 4, 8)
"""Bytes of what is moved as one."""
NARROW = 8
"""Up to how many rows or columns of a transpose are interleaved."""
SHORT = 4
"""Up to how many elements that lie together have a body of their own in a resize, which reads no more."""
OUTER = 6
"""Outer loops that a record has room for."""


def outer_loops(loop: Record) -> Record:
    """The slots of the outer loops, innermost first: their number `rank`, then the fields of loop 0 as n0 ..., of loop
    1 ...
    """
    each = {f"{name}{k}": f"{meaning}, in outer loop {k}" for k in range(OUTER) for name, meaning in loop.items()}
    return Record(rank="how many outer loops there are; the others' slots have no meaning") + Record(each)


LOOP = Record(n="places", s="from one to the next in src", d="from one to the next in dst")

PAD_LOOP = Record(
    n="places in dst",
    low="the first of them that exists in src",
    inside="how many exist in src",
    s="from one to the next in src",
    d="from one to the next in dst",
)

TAKE_LOOP = Record(
    n="places",
    table="address of their int64 offsets in src; negative: outside of it",
    d="from one to the next in dst",
)

_ENDS = Record(dst="address of the destination", src="address of the source")


def _moved(loop: Record, **slots: str) -> Record:
    """The record of a move: source and destination, its own slots, its outer loops."""
    return _ENDS + Record(**slots) + outer_loops(loop)


COPY = _moved(
    LOOP,
    itemsize="bytes of an element: 1, 2, 4 or 8; 1 in mode run, where all counts in bytes",
    count="elements of a row",
    step_s="from one to the next in src",
    step_d="from one to the next in dst",
    rows="how many rows: the innermost loop around them",
    row_s="from row to row of src",
    row_d="from row to row of dst",
)

TRANSPOSE = _moved(
    LOOP,
    rows="rows of dst, elements in a row of src",
    row_d="from row to row of dst",
    cols="elements in a row of dst, rows of src",
    col_s="from row to row of src",
    few="if narrow is 1: cols, where rows of dst are dense; if -1: minus rows, where those of src are; else 0",
    high="rows of dst that are done together; if narrow: places of either side",
    wide="columns of dst that are done together",
)

PAD = _moved(
    PAD_LOOP,
    fill="an element's bits, repeated to 8 bytes",
    left="bytes of fill before a run",
    run="bytes of a run, 0 or more",
    right="bytes of fill after a run",
)

SLICE = _ENDS + Record(
    turn="address of an int64, 0 to turns - 1: which slice is copied",
    turns="how many slices there are",
    turn_s="from slice to slice of src",
    turn_d="from slice to slice of dst",
    rows="rows of a slice",
    run="bytes of a row",
    row_s="from row to row of src",
    row_d="from row to row of dst",
)

ROUND = Record(
    go="address of the byte that becomes 1 when another round begins, else 0",
    turn="address of the int64 that becomes its number",
    limit="address of an int64: how many rounds there are at most",
    test="address of the byte that says whether there is another below that",
    first="1 before the first round: `turn` becomes 0; then 0: it becomes one more",
)

PLACE_LOOP = Record(
    n="places",
    s="from one to the next in src",
    i="from one to the next in the indices",
    d="from one to the next in dst",
)
COMPONENT = Record(
    extent="places that an index can say",
    stride="from one to the next in what is indexed",
    wrap="what is added to an index below 0",
)
DEPTH = 6
"""Indices that say one place."""
REPORTED, MOVED, LEFT_OUT = range(3)
"""What becomes of indices out of range: an error; the nearest place instead; nothing is written."""

PLACES = _moved(
    PLACE_LOOP,
    index="address of the indices, whole numbers",
    index_size="bytes of an index: 1, 2, 4 or 8",
    signed="1 where indices have a sign, else 0",
    component="from one index of a place to the next",
    depth="indices that say a place, 1 or more",
    outside="what becomes of indices out of range: REPORTED 0, MOVED 1, LEFT_OUT 2 (not by a gather)",
    error="address of an int64 that becomes 1 when an index is out of range, where that is REPORTED",
    parts="equal parts that threads may share: those of the outermost loops that never write the same bytes",
    word="bytes of what is moved at once: 1, 2, 4, 8, or 0, where that are runs; means nothing to scatter_reduce",
    run="bytes of what lies at a place",
    count="places of the innermost loop",
    s="from one to the next in src",
    i="from one to the next in the indices",
    d="from one to the next in dst",
    **{f"{name}{k}": f"{what}, of index {k} of a place" for k in range(DEPTH) for name, what in COMPONENT.items()},
)
"""Of src in a gather, of dst in a scatter, the places are offset by index * stride."""

NUMBERS = ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
"""Element types that kernels compare and reduce, by their place here."""
OPERATIONS = ("add", "mul", "min", "max", "div")
"""What a scatter makes of what is there and what comes; whole numbers wrap around, and are not divided."""
REDUCED = Record(kind="the place of the element type in NUMBERS", operation="the place in OPERATIONS")


def size_of(kind: str) -> int:
    """Bytes of one of NUMBERS."""
    return int(kind[1:]) // 8


def entry_bytes(wide: bool) -> int:
    """Bytes of a heap's entry with keys of 64 bits (`wide`) or 32."""
    return 16 if wide else 8


TAKE = _moved(
    TAKE_LOOP,
    fill="the bits of what lies outside, repeated to 8 bytes",
    itemsize="bytes of an element: 1, 2, 4 or 8, where those are no `runs`",
    rows="entries of the innermost table",
    table="its address: int64 offsets in src, or (offset in dst, offset in src, bytes) of runs",
    d="from element to element of the innermost axis in dst",
)

_OUTER_IMAGE = Record(
    outer="places of the loop around the axes",
    outer_s="from one to the next in src",
    outer_d="from one to the next in dst",
)

_ZERO = Record(zero="zero point of a result that is stored in a byte, else 0")

RESIZE = _ENDS + Record(
    offset="address of int64 [n, taps], offsets in src",
    weight="address of f32 [n, taps]",
    bias="address of f32 [n], what a sum begins with",
    taps="terms of a sum",
) + _OUTER_IMAGE + Record(
    n="places of the axis in dst",
    d="from one to the next in dst",
    run="elements that lie together at a place",
) + _ZERO  # fmt: skip

BILINEAR = _ENDS + Record(
    offset_y="address of int64 [height, 2], offsets in src",
    weight_y="address of f32 [height, 2]",
    offset_x="address of int64 [width, 2], offsets in src",
    weight_x="address of f32 [width, 2]",
) + _OUTER_IMAGE + Record(
    height="rows of dst",
    dy="from row to row of dst",
    width="pixels in a row of dst",
    dx="from pixel to pixel of dst",
    run="elements of a pixel",
) + _ZERO  # fmt: skip

BACKWARDS = Record(
    places="address of int64 [count, steps]",
    lengths="address of the lengths, whole numbers",
    index_size="bytes of a length: 1, 2, 4 or 8",
    signed="1 where lengths have a sign, else 0",
    count="sequences",
    steps="of each",
)

TRIANGLE = _ENDS + Record(
    k="address of an int64: the diagonal up to which columns count, 0 the main one, above 0 those to its right",
    matrices="",
    rows="of a matrix",
    columns="of a matrix; rows are dense",
    size="bytes of an element",
    upper="1 where what lies on the diagonal and to its right is kept; 0: on it and to its left",
)

POINT = Record(
    at="from a point's place in the grid to its coordinate along the axis",
    row="from row to row of points of that",
    column="from column to column",
    before="f64 bits: a coordinate g says ((g + before) * scale + after) * factor pixels",
    scale="",
    after="",
    factor="",
    low="f64 bits: what is reflected is so from here",
    high="to here",
    size="pixels",
    stride="from one to the next in src",
)
"""An axis that is sampled."""
SAMPLED = 3
"""Axes that a record has room for."""
NEAREST, LINEAR, CUBIC = range(3)
ZEROS, BORDER, REFLECTED, PADDED = range(4)
"""What lies outside: zeros (`pad`), the border's pixels, the image in a mirror; or a sample outside is `pad` itself."""

SAMPLE = (
    _ENDS
    + Record(
        grid="address of the coordinates",
        grid_size="bytes of one: 4 (f32) or 8 (f64)",
        grid_item="from item to item of them",
        share="items that have the same, one after the other",
        images="address of an int64 for each item: which image it samples",
        image_count="images there are",
        error="address of an int64 that becomes 1 when there is no such image",
        items="",
        rows="rows of points of an item",
        columns="points of a row",
        channels="",
        src_image="from image to image of src",
        src_channel="from channel to channel",
        dst_item="from item to item of dst",
        dst_channel="from channel to channel; points lie together",
        mode="NEAREST 0, LINEAR 1, CUBIC 2",
        outside="ZEROS 0, BORDER 1, REFLECTED 2, PADDED 3",
        fold="1 where coordinates are reflected before they are rounded, else 0",
        pad="bits of an f32",
        axes="how many are sampled, 1 or more",
    )
    + Record({f"{name}{k}": f"{meaning}, of axis {k}" for k in range(SAMPLED) for name, meaning in POINT.items()})
)
"""f32 in and out."""

SUPPRESS = Record(
    places="address of int64 [items, most]: the boxes that are kept, best first",
    counts="address of int64 [items]: how many that are",
    found="address of f32 [items, most]: their scores; or 0",
    boxes="address of f32 [items / share, n, 4]",
    scores="address of f32 [items, n]",
    limit="address of an f32: the overlap up to which a box is kept",
    least="address of an f32: scores count that are above it, or 0: all do",
    items="",
    share="items that have the same boxes, one after the other",
    n="boxes",
    most="how many are kept at most",
    count="address of an int64: how many of the n boxes there are, or 0: all",
    wanted="address of an int64: how many are kept at most, if that is less than `most`; or 0",
    empty="what stands behind the kept ones in `places`",
    centered="1 where boxes are (x, y, width, height) of their middles; 0: opposite corners",
    strict="1 where an overlap of `limit` is too much already, else 0",
    reaches="1 where a score of `least` counts, else 0",
    scratch="address of memory for each thread",
    scratch_bytes="bytes of it: 8 for each of n, and 4 * 5 for each of most, rounded up to whole vectors",
)

BOX = 5
"""f32 that `suppress` keeps of a box: low y, low x, high y, high x, area; each in an array of its own."""

TOP_K = Record(
    values="address of the best [outer, k, inner]",
    places="address of their places along the axis, int64 [outer, k, inner]",
    x="address of the input [outer, n, inner]",
    outer="",
    n="elements along the axis",
    inner="",
    k="how many are wanted, 1 to n",
    count="address of an int64: how many of the n elements there are, or 0: all",
    wanted="address of an int64: how many are wanted, if that is less than `k`; or 0. Zeros stand behind them",
    kind="the place of the element type in NUMBERS",
    size="its bytes",
    least="1 where the smallest are the best, else 0",
    scratch="address of memory for each thread",
    scratch_bytes="bytes of it: 8 for each of k, or 16 where elements have 8 bytes",
)

NON_ZERO = Record(
    places="address of int64 [rank, n]: the place along each axis of each element that is not 0, in their order",
    count="address of an int64: how many that are; zeros stand behind their places",
    x="address of the input",
    dims="address of its extents, int64 [rank]",
    rank="1 or more",
    n="its elements",
    size="bytes of one: 1, 2, 4 or 8",
    real="1 where they are floats, of which -0 is 0, else 0",
)

RESIZED = ("f32", "u8", "s8")


def _keeps_type(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Resizes in several passes have f32 between them; no kernel makes u8 of s8."""
    return params["source"] == params["target"] or "f32" in params.values()


_FLAG = (False, True)
ROWS = (
    Row("copy", "move.copy", "copy", COPY, {"mode": ("run", "fill", "step")}),
    Row("transpose", "move.transpose", "transpose", TRANSPOSE, {"itemsize": WORDS, "narrow": (0, 1, -1)}),
    Row("slice", "move.rounds", "slice_", SLICE),
    Row("round", "move.rounds", "round_", ROUND),
    Row("pad", "move.pad", "pad", PAD),
    Row("gather", "move.gather_scatter", "gather", PLACES),
    Row("scatter", "move.gather_scatter", "scatter", PLACES),
    Row("scatter_reduce", "move.gather_scatter", "scatter_reduce", PLACES + REDUCED),
    Row("backwards", "move.gather_scatter", "backwards", BACKWARDS),
    Row("top_k", "move.top_k", "top_k", TOP_K, {"wide": _FLAG}),
    Row("triangle", "move.triangle", "triangle", TRIANGLE),
    Row("sample", "move.sample", "sample", SAMPLE),
    Row("suppress", "move.suppress", "suppress", SUPPRESS),
    Row("non_zero", "move.non_zero", "non_zero", NON_ZERO),
    Row("take", "move.take", "take", TAKE, {"runs": _FLAG}),
    Row("resize", "move.resize", "resize", RESIZE, {"source": RESIZED, "target": RESIZED}, _keeps_type),
    Row("bilinear", "move.resize", "bilinear", BILINEAR, {"source": RESIZED, "target": RESIZED}, _keeps_type),
)
