"""Keys and values as panels for tiles: for each word of a row, a line of vectors of columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..gemm.pack_b import Masks, by_columns, copy_lines
from ..lang import F32, I32, I64, Value, divide, over, remainder, smaller, tier, traced, when, whole
from ..move.shuffles import transpose_square
from .pick_attention import NV


@traced
def pack_keys(panels: Value, k: Value, row: Value, t: Value, d: Value, scale: Value) -> None:
    """Pack t keys, `row` bytes apart, times a scale; panels are padded with copies of the last."""
    f32, width = F32.vector(tier().lanes), NV * tier().lanes

    def square(rows: Sequence[Value], start: Value, at: Value, factor: Value, rest: Value | None = None) -> None:
        """A vector of words of each row, or the remaining `rest`, transposed to lines of a panel at `start`."""
        mask = None if rest is None else f32.below(rest)
        offset = at * 4
        words = [f32[address + offset, mask] for address in rows]
        for j, word in enumerate(transpose_square(words, 4)):
            to = F32.at(start + (at + j) * (4 * width))
            with when(None if rest is None else I64(j) < rest):
                f32[to] = word * factor

    factor = f32(scale.to(I32).bits(F32))
    last = t - 1
    for i in over(0, t, f32.lanes):
        rows = [k + row * smaller(i + j, last) for j in range(f32.lanes)]
        start = panels + (divide(i, width) * (d * (4 * width)) + remainder(i, width) * 4)
        end = whole(d, f32.lanes)
        for at in over(0, end, f32.lanes):
            square(rows, start, at, factor)
        rest = d - end
        with when(rest > 0):
            square(rows, start, end, factor, rest)


@traced
def pack_values(panels: Value, start: Value, row: Value, t: Value, e: Value) -> None:
    """Pack t values, `row` bytes apart, in one panel per vectors of columns; columns beyond e are 0."""
    f32, width = F32.vector(tier().lanes), NV * tier().lanes

    def copy(column: Value, masks: Masks) -> None:
        to = panels + column * (t * 4)
        copy_lines(f32, masks, to, (start + column * 4, row), t)

    for column in over(0, e, width):
        by_columns(f32, NV, e - column, partial(copy, column))
