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
    below,
    cases,
    choose,
    divide,
    larger,
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
    whole,
)
from .pool import joined, merged, rooted, rows_counted, start
from .rows import POOL_ANY
from .window import Place, Range, slots, steps_inside

ROWS = 64
"""Rows of outputs that are computed for a vector of columns before the next columns."""
UNROLLED = (2, 3, 5)
"""Columns of windows that have a body of their own."""
STRIPS = {2: 4, 3: 4, 5: 2}
"""Vectors of a row that are computed together for each of them, as there are registers."""


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
                _columns(kind, op, size, Band(args, image, first, smaller(first + ROWS, r.out_h)))

        square = choose((r.k_h == r.k_w) & (r.stride_y == 1) & (r.dilation_y == 1), r.k_w, 0)
        cases(square, {size: partial(all_bands, size) for size in UNROLLED}, partial(all_bands, 0))

    return outputs


def _columns(kind: Type, op: str, size: int, band: Band) -> None:
    """All columns of a band: those whose windows lie inside of x in strips of vectors, pairs and single ones, then
    those on the left and right. Where a row ends within its last vector, that begins earlier.
    """
    r, lanes, most = slots(band.args, POOL_ANY), kind.lanes, STRIPS.get(size, 1)
    first = smaller(pieces(r.pad_x, lanes), pieces(r.out_w, lanes)) * lanes
    limit = smaller(r.out_w, r.w + r.pad_x - (r.k_w - 1) * r.dilation_x)
    inside = larger(limit - first, 0)
    end = choose((inside >= lanes) & (limit == r.out_w), limit, first + whole(inside, lanes))
    begin = first
    for wide in (vectors * lanes for vectors in (4, 2, 1) if vectors <= most):
        stop = end if wide == lanes else first + whole(inside, wide)
        for column in over(begin, stop, wide):
            _rows(Columns(kind, op, size, r, smaller(column, end - wide), wide // lanes, True), band)
        begin = stop
    for at in over(0, first + larger(r.out_w - end, 0), lanes):
        column = smaller(at + choose(at < first, 0, end - first), larger(r.out_w - lanes, 0))
        _rows(Columns(kind, op, size, r, column, 1, False), band)


class Columns(NamedTuple):
    """Some vectors of columns of outputs, from `column` on; size: of square windows without gaps, 0 for any; inner:
    whether there are all columns of x that the windows see, and all of these outputs; else there is one vector."""

    kind: Type
    op: str
    size: int
    r: Any
    column: Value
    vectors: int
    inner: bool

    def left(self, q: Any) -> Value:
        """The column of x that tap q of the first of them reads."""
        return self.column + (q * self.r.dilation_x - self.r.pad_x)

    def inside(self, q: Any) -> Value:
        """The lanes for which there is the column of x that tap q reads."""
        return self.kind.below(self.r.w - self.left(q)) & ~self.kind.below(-self.left(q))

    def tap(self, line: Value, q: Any, mask: Value, vector: int = 0) -> Value:
        """What tap q reads of the row of x at `line` for a vector, or what counts for nothing."""
        first = line + self.left(q) + vector * self.kind.lanes
        if self.inner:
            return self.kind[first]
        found = self.kind[first, mask]
        return choose(mask, found, float("-inf")) if self.op == "max" else found


def _rows(c: Columns, band: Band) -> None:
    """The rows of a band. In square windows a row of x is pooled once, for all windows that have it."""
    r, kind, op = c.r, c.kind, c.op
    first = F32.at(r.x) + band.image * (r.h * r.w)
    wide = _columns_counted(c) if op == "average" else None
    usual = 1.0 / ((kind(1.0) if wide is None else wide) * kind(r.k_h.to(F32))), _full_rows(r)
    masks = [c.inside(q) for q in range(c.size)]

    def pooled_row(row: Value) -> list[Value]:
        found = registers([start(kind, op)] * c.vectors)
        with when(below(row, r.h)):
            for i in range(c.vectors):
                taps = (c.tap(first + row * r.w, q, mask, i) for q, mask in enumerate(masks))
                found[i] = reduce(partial(joined, op), taps, found[i])
        return found.values()

    above = [registers(pooled_row(band.first - r.pad_y + p)) for p in range(c.size - 1)]
    for row in over(band.first, band.end):
        up = row * r.stride_y - r.pad_y
        if c.size:
            rows = [*(kept.values() for kept in above), pooled_row(up + (c.size - 1))]
            totals = [reduce(partial(merged, op), column) for column in zip(*rows, strict=True)]
            for kept, later in zip(above, rows[1:], strict=True):
                for i, value in enumerate(later):
                    kept[i] = value
        else:
            totals = [_pooled(c, first + up * r.w, steps_inside(r.h, up, r.dilation_y, r.k_h))]
        if wide is not None:
            by = _inverse(c, usual, wide, row, band)
            totals = [total * by for total in totals]
        y = F32.at(r.y) + ((band.image * r.out_h + row) * r.out_w + c.column)
        results = [rooted(op, total) for total in totals]
        if c.inner:
            for i, result in enumerate(results):
                kind[y + i * kind.lanes] = result
        else:
            masked(kind, r.out_w - c.column, 1, partial(_store, y, results[0]))


def _inverse(c: Columns, usual: tuple[Value, Range], wide: Value, row: Value, band: Band) -> Value:
    """The inverse of how many elements an average counts; usual: that of windows with all rows, and `_full_rows`."""
    r, by, (first, end) = c.r, register(usual[0]), usual[1]
    up = row * r.stride_y - r.pad_y
    if c.size:
        with when(~below(row - first, end - first)):
            included = r.include_pad != 0
            bottom = smaller(up + c.size, choose(included, r.h + r.far_pad_y, r.h))
            high = bottom - choose(included, up, larger(up, 0))
            by.value = 1.0 / (wide * c.kind(high.to(F32)))
        return by.value
    with when(~((up >= 0) & (up + (r.k_h - 1) * r.dilation_y < r.h))):
        rows = steps_inside(r.h, up, r.dilation_y, r.k_h)
        high = rows_counted(
            r, Place(band.args, band.image, row, I64(0), I64(1), (I64(0), r.out_w)), (I64(0), I64(1)), rows
        )
        by.value = 1.0 / (wide * c.kind(high.to(F32)))
    return by.value


def _full_rows(r: Any) -> Range:
    """The rows of outputs all of whose windows' rows count in an average, for strides and dilations of 1."""
    included = r.include_pad != 0
    first = choose(included, 0, r.pad_y)
    return first, larger(choose(included, r.h + r.far_pad_y, r.h) + r.pad_y - r.k_h + 1, first)


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
