"""The data-movement kernels: their records and their rows of the table.

Strides, offsets and runs are bytes (`..._s` in the source, `..._d` in the destination), the rest are elements, unless a
slot says otherwise. copy_plan.py, gather_plan.py and resize_plan.py fill the records.
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

GATHER = _ENDS + Record(
    index="address of the indices, signed integers",
    index_size="bytes of an index: 4 or 8",
    error="address of an int64 that becomes 1 when an index is out of range",
    count="indices",
    axis="places of the axis in src",
    run="bytes of what an index stands for; 1, 2, 4 or 8 where those are no `runs`",
    s="from place to place of the axis in src",
    d="from index to index in dst",
    outer="places of the loop around the axis",
    outer_s="from one to the next in src",
    outer_d="from one to the next in dst",
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

RESIZED = ("f32", "u8", "s8")


def _keeps_type(tier: Tier, params: Mapping[str, Any]) -> bool:
    """Resizes in several passes have f32 between them; none makes u8 of s8."""
    return params["source"] == params["target"] or "f32" in params.values()


_FLAG = (False, True)
ROWS = (
    Row("copy", "move.copy", "copy", COPY, {"mode": ("run", "fill", "step")}),
    Row("transpose", "move.transpose", "transpose", TRANSPOSE, {"itemsize": WORDS, "narrow": (0, 1, -1)}),
    Row("slice", "move.rounds", "slice_", SLICE),
    Row("round", "move.rounds", "round_", ROUND),
    Row("pad", "move.pad", "pad", PAD),
    Row("gather", "move.gather", "gather", GATHER, {"runs": _FLAG}),
    Row("take", "move.gather", "take", TAKE, {"runs": _FLAG}),
    Row("resize", "move.resize", "resize", RESIZE, {"source": RESIZED, "target": RESIZED}, _keeps_type),
    Row("bilinear", "move.resize", "bilinear", BILINEAR, {"source": RESIZED, "target": RESIZED}, _keeps_type),
)
