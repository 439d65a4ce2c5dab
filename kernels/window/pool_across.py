"""Pools of one channel, dense, of stride 1 along rows: pixels of a row lie in lanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

from ..lang import (
    F32,
    I64,
    Type,
    Value,
    cases,
    choose,
    divide,
    either,
    masked,
    over,
    pieces,
    register,
    registers,
    remainder,
    share,
    smaller,
    traced,
    when,
)
from .pool import joined, merged, rooted, rows_counted, start
from .rows import POOL_ANY
from .window import Place, Range, slots, steps_inside

ROWS = 64
"""Rows of outputs that are computed for a vector of columns before the next columns."""
UNROLLED = (2, 3, 5)
"""Columns of windows that have a body of their own."""


class Band(NamedTuple):
    """Rows [first, end) of an image's outputs."""

    args: Value
    image: Value
    first: Value
    end: Value


def pooled_across(kind: Type, op: str) -> Callable[..., None]:
    """What a kernel does for a record with `across`: (args, thread, threads)."""

    @traced
    def outputs(args: Value, thread: Value, threads: Value) -> None:
        r = slots(args, POOL_ANY)
        bands = pieces(r.out_h, ROWS)

        def all_bands(size: int) -> None:
            for unit in over(*share(r.n * bands, thread, threads)):
                image, first = divide(unit, bands), remainder(unit, bands) * ROWS
                band = Band(args, image, first, smaller(first + ROWS, r.out_h))
                for column in over(0, r.out_w, kind.lanes):
                    with either(_is_inner(kind, r, column)) as ways:
                        for way, inner in zip(ways, (True, False), strict=True):
                            with way:
                                _rows(Columns(kind, op, size, r, column, inner), band)

        square = choose((r.k_h == r.k_w) & (r.stride_y == 1) & (r.dilation_y == 1), r.k_w, 0)
        cases(square, {size: partial(all_bands, size) for size in UNROLLED}, partial(all_bands, 0))

    return outputs


def _is_inner(kind: Type, r: Any, column: Value) -> Value:
    """Whether there are all columns of x that the windows of a vector of outputs see, and all of these outputs."""
    left = column - r.pad_x
    end = left + ((r.k_w - 1) * r.dilation_x + kind.lanes)
    return (left >= 0) & (end <= r.w) & (column + kind.lanes <= r.out_w)


class Columns(NamedTuple):
    """A vector of columns of outputs, from `column` on; size: of square windows without gaps, 0 for any; inner: as of
    `_is_inner`."""

    kind: Type
    op: str
    size: int
    r: Any
    column: Value
    inner: bool

    def left(self, q: Any) -> Value:
        """The column of x that tap q of the first of them reads."""
        return self.column + (q * self.r.dilation_x - self.r.pad_x)

    def inside(self, q: Any) -> Value:
        """The lanes for which there is the column of x that tap q reads."""
        return self.kind.below(self.r.w - self.left(q)) & ~self.kind.below(-self.left(q))

    def tap(self, line: Value, q: Any, mask: Value) -> Value:
        """What tap q reads of the row of x at `line`, or what counts for nothing."""
        if self.inner:
            return self.kind[line + self.left(q)]
        found = self.kind[line + self.left(q), mask]
        return choose(mask, found, float("-inf")) if self.op == "max" else found


def _rows(c: Columns, band: Band) -> None:
    """The rows of a band. In square windows a row of x is pooled once, for all windows that have it."""
    r, kind, op = c.r, c.kind, c.op
    first = F32.at(r.x) + band.image * (r.h * r.w)
    wide = _columns_counted(c) if op == "average" else None
    masks = [c.inside(q) for q in range(c.size)]

    def pooled_row(row: Value) -> Value:
        found = register(start(kind, op))
        with when((row >= 0) & (row < r.h)):
            taps = (c.tap(first + row * r.w, q, mask) for q, mask in enumerate(masks))
            found.value = reduce(partial(joined, op), taps, found.value)
        return found.value

    above = registers([pooled_row(band.first - r.pad_y + p) for p in range(c.size - 1)])
    for row in over(band.first, band.end):
        up = row * r.stride_y - r.pad_y
        if c.size:
            rows = [*above.values(), pooled_row(up + (c.size - 1))]
            total = reduce(partial(merged, op), rows)
            for p, later in enumerate(rows[1:]):
                above[p] = later
        else:
            total = _pooled(c, first + up * r.w, steps_inside(r.h, up, r.dilation_y, r.k_h))
        if wide is not None:
            total = _mean(c, total, wide, row, band)
        y = F32.at(r.y) + ((band.image * r.out_h + row) * r.out_w + c.column)
        if c.inner:
            kind[y] = rooted(op, total)
        else:
            masked(kind, r.out_w - c.column, 1, partial(_store, y, rooted(op, total)))


def _mean(c: Columns, total: Value, wide: Value, row: Value, band: Band) -> Value:
    """Sums by their counts, of which those of windows of two rows and columns are powers of two: then the product with
    the reciprocal is the same."""
    r, up = c.r, row * c.r.stride_y - c.r.pad_y

    def divisor(high: Value) -> Value:
        many = wide * c.kind(high.to(F32))
        return 1.0 / many if c.size == 2 else many

    by = register(divisor(r.k_h))
    with when(~((up >= 0) & (up + (r.k_h - 1) * r.dilation_y < r.h))):
        rows = steps_inside(r.h, up, r.dilation_y, r.k_h)
        by.value = divisor(rows_counted(r, Place(band.args, band.image, row, I64(0), I64(1)), (I64(0), I64(1)), rows))
    return total * by.value if c.size == 2 else total / by.value


def _store(y: Value, result: Value, masks: Any) -> None:
    result.type[y, masks[0]] = result


def _pooled(c: Columns, x: Value, rows: Range) -> Value:
    """A row of outputs, whose windows have these rows of those from x on."""
    r, kind, op = c.r, c.kind, c.op
    result = register(start(kind, op))
    for q in over(r.k_w):
        mask, total = c.inside(q), register(start(kind, op))
        for p in over(*rows):
            total.value = joined(op, total.value, c.tap(x + p * (r.dilation_y * r.w), q, mask))
        result.value = merged(op, result.value, total.value)
    return result.value


def _columns_counted(c: Columns) -> Value:
    """How many columns of each window an average counts."""
    r, kind = c.r, c.kind
    if c.inner:
        return kind(r.k_w.to(F32))
    found, included = register(kind(0.0)), r.include_pad != 0
    end = choose(included, r.w + r.far_pad_x, r.w)
    for q in over(r.k_w):
        there = kind.below(end - c.left(q)) & ~kind.below(choose(included, 0, -c.left(q)))
        found.value = choose(there, found.value + 1.0, found.value)
    return found.value
