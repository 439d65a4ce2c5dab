"""The data-movement kernels: their records and their rows of the table.

Strides, offsets and runs are bytes (`..._s` in the source, `..._d` in the destination), the rest are elements, unless a
slot says otherwise. copy_plan.py, take_plan.py, places_plan.py and resize_plan.py fill the records.
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
    """The slots of the outer loops, innermost first: `rank`, how many there are, then loop 0 as n0 ..., loop 1 ..."""
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

COPY = _ENDS + Record(
    itemsize="bytes of an element: 1, 2, 4 or 8; 1 in mode run, where all counts in bytes",
    count="elements of a row",
    step_s="from one to the next in src",
    step_d="from one to the next in dst",
    rows="how many rows: the innermost loop around them",
    row_s="from row to row of src",
    row_d="from row to row of dst",
) + outer_loops(LOOP)  # fmt: skip

TRANSPOSE = _ENDS + Record(
    rows="rows of dst, elements in a row of src",
    row_d="from row to row of dst",
    cols="elements in a row of dst, rows of src",
    col_s="from row to row of src",
    few="if narrow is 1: cols, where rows of dst are dense; if -1: minus rows, where those of src are; else 0",
    high="rows of dst that are done together; if narrow: places of either side",
    wide="columns of dst that are done together",
) + outer_loops(LOOP)  # fmt: skip

PAD = _ENDS + Record(
    fill="an element's bits, repeated to 8 bytes",
    left="bytes of fill before a run",
    run="bytes of a run, 0 or more",
    right="bytes of fill after a run",
) + outer_loops(PAD_LOOP)  # fmt: skip

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

PLACES = _ENDS + Record(
    index="address of the indices, whole numbers",
    index_size="bytes of an index: 1, 2, 4 or 8",
    signed="1 where indices have a sign, else 0",
    component="from one index of a place to the next",
    depth="indices that say a place, 1 or more",
    outside="what becomes of indices out of range: REPORTED 0, MOVED 1, LEFT_OUT 2 (not by a gather)",
    error="address of an int64 that becomes 1 when an index is out of range, where that is REPORTED",
    apart="into how many equal parts threads may cut the places: those of the outermost loops; all of a gather's",
    word="bytes of what is moved at once: 1, 2, 4, 8, or 0, where that are runs; means nothing to scatter_reduce",
    run="bytes of what lies at a place",
    count="places of the innermost loop",
    s="from one to the next in src",
    i="from one to the next in the indices",
    d="from one to the next in dst",
) + Record({
    f"{name}{k}": f"{meaning}, of index {k} of a place" for k in range(DEPTH) for name, meaning in COMPONENT.items()
}) + outer_loops(PLACE_LOOP)  # fmt: skip
"""Of src in a gather, of dst in a scatter, the places are offset by index * stride."""

REDUCED = Record(
    kind="the place of the element type in reductions.KINDS",
    operation="the place in reductions.OPERATIONS",
)

TAKE = _ENDS + Record(
    fill="the bits of what lies outside, repeated to 8 bytes",
    itemsize="bytes of an element: 1, 2, 4 or 8, where those are no `runs`",
    rows="entries of the innermost table",
    table="its address: int64 offsets in src, or (offset in dst, offset in src, bytes) of runs",
    d="from element to element of the innermost axis in dst",
) + outer_loops(TAKE_LOOP)  # fmt: skip

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

TOP_K = Record(
    values="address of the best [outer, k, inner]",
    places="address of their places along the axis, int64 [outer, k, inner]",
    x="address of the input [outer, n, inner]",
    outer="",
    n="elements along the axis",
    inner="",
    k="how many are wanted, 1 to n",
    kind="the place of the element type in heap.NUMBERS",
    size="its bytes",
    least="1 where the smallest are the best, else 0",
    scratch="address of memory for each thread",
    scratch_bytes="bytes of it: 8 for each of k, or 16 where elements have 8 bytes",
)

RESIZED = ("f32", "u8", "s8")


def _keeps_type(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Resizes in several passes have f32 between them; none makes u8 of s8."""
    return params["source"] == params["target"] or "f32" in params.values()


_FLAG = (False, True)
ROWS = (
    Row("copy", "move.copy", "copy", COPY, {"mode": ("run", "fill", "step")}),
    Row("transpose", "move.transpose", "transpose", TRANSPOSE, {"itemsize": WORDS, "narrow": (0, 1, -1)}),
    Row("pad", "move.pad", "pad", PAD),
    Row("gather", "move.places", "gather", PLACES),
    Row("scatter", "move.places", "scatter", PLACES),
    Row("scatter_reduce", "move.places", "scatter_reduce", PLACES + REDUCED),
    Row("top_k", "move.top_k", "top_k", TOP_K, {"wide": _FLAG}),
    Row("take", "move.take", "take", TAKE, {"runs": _FLAG}),
    Row("resize", "move.resize", "resize", RESIZE, {"source": RESIZED, "target": RESIZED}, _keeps_type),
    Row("bilinear", "move.resize", "bilinear", BILINEAR, {"source": RESIZED, "target": RESIZED}, _keeps_type),
)
