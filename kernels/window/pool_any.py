"""f32 pooling, channels last: window, strides and dilations at run time, in up to three dimensions.

Columns are pooled first, into a buffer; then their results from left to right, so that neighboring windows share them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..isa.tiers import Tier
from ..lang import (
    F32,
    I64,
    U8,
    Type,
    Value,
    choose,
    divide,
    either,
    over,
    register,
    registers,
    room,
    smaller,
    when,
    whole,
)
from .pool import finished, joined, merged, padded_rows, start
from .results import Outputs, finish_rows, walk_row
from .rows import POOL
from .window import Place, brought, f32_at, nest, output_at, slots, spread, steps, taps_inside

ROOM = 64
"""Columns that the buffer has room for."""
TOGETHER = 4
"""Columns that are pooled together, and outputs."""


@dataclass(frozen=True)
class Pool:
    """A row of outputs that is pooled: the windows' planes and rows that exist are ranges, `high` is how many of them
    count in an average, and columns are pooled into the buffer at the address `sums`.
    """

    op: str
    f32: Type
    slots: Any
    planes: tuple[Value, ...]
    rows: tuple[Value, ...]
    high: Value
    sums: Value

    @property
    def begun(self) -> Value:
        """What a pool has before its first element."""
        return start(self.f32, self.op)

    def kept(self, column: Any) -> Value:
        """The pointer to a vector of the buffer."""
        return F32.at(self.sums) + column * self.f32.lanes


def make_pool_any(tier: Tier, op: str) -> Callable:
    """As make_pool, for any window."""
    f32 = F32.vector(tier.lanes)

    def row(place: Place) -> None:
        r = slots(place, POOL)
        begin, planes, rows = taps_inside(r, place)
        high = (planes[1] - planes[0]) * (rows[1] - rows[0])
        if op == "average":
            high = choose(r.include_pad != 0, padded_rows(r, place), high)
        sums = room(U8, f32.size * ROOM, align=64).address
        pool = Pool(op, f32, r, planes, rows, high, sums)
        # As many outputs as have all of their columns in the buffer; one where that has not even all of its own, or
        # where few of the columns belong to a window.
        reach = (r.k_w - 1) * r.dilation_x + 1
        several = divide(brought(I64(ROOM) - reach, ROOM), r.stride_x) + 1
        group = choose(r.stride_x > reach * 2, 1, several)
        for column in over(0, r.out_w, group):
            for channel in over(place.channel, place.end, tier.lanes):
                here = replace(place, channel=channel)
                left = column * r.stride_x - r.pad_x
                x = begin + (left * r.ldx + channel << 2)
                count = smaller(r.out_w - column, group)
                _pool_group(pool, x, left, count)
                y, pixel = output_at(r, here, column)
                finish_rows(f32, POOL, here, Outputs(y, pixel, count), sums)

    return nest(POOL, row, walk_row)


def _pool_group(pool: Pool, x: Value, left: Value, count: Value) -> None:
    """Pool `count` outputs, which replace their columns in the buffer; x: the address of what is in column `left`.

    Those of one output come some at a time where they are more than fit.
    """
    r = pool.slots
    begun = register(pool.begun)
    fit = divide(I64(ROOM - 1), r.dilation_x) + 1
    for q in over(0, r.k_w, fit):
        taps, skip = smaller(r.k_w - q, fit), q * r.dilation_x
        span = (count - 1) * r.stride_x + ((taps - 1) * r.dilation_x + 1)
        _pool_columns(pool, x + (skip * r.ldx << 2), left + skip, span)
        with either(count == 1) as (one, many):
            with one:
                total = _join_taps(pool, I64(0), 1, taps, begun.value)
                begun.value = total[0]
                _keep_results(pool, I64(0), total, left)
            with many:
                most = whole(count, TOGETHER)
                for first, end, some in ((0, most, TOGETHER), (most, count, 1)):
                    for t in over(first, end, some):
                        totals = _join_taps(pool, t, some, taps, pool.begun)
                        _keep_results(pool, t, totals, left)


def _pool_columns(pool: Pool, x: Value, left: Value, span: Value) -> None:
    """Fill the buffer with `span` columns from `left` on, of which the first is at x."""
    r, f32 = pool.slots, pool.f32
    low, high = brought(-left, span), brought(r.w - left, span)
    for begin, end in ((0, low), (high, span)):
        for j in over(begin, end):
            f32[pool.kept(j)] = pool.begun
    narrow = high - low < TOGETHER
    for count, end in ((TOGETHER, choose(narrow, low, high)), (1, choose(narrow, high, low))):
        for j in over(low, end, count):
            # The last ones may have been pooled before, as others' last ones.
            first = smaller(j, high - count)
            _pool_some(pool, x + (first * r.ldx << 2), first, count)


def _pool_some(pool: Pool, x: Value, first: Value, count: int) -> None:
    """Pool some columns, of which the first is at x, into the buffer from `first` on."""
    r, f32 = pool.slots, pool.f32
    line = r.w * r.ldx
    totals = registers([pool.begun] * count)
    for z in over(*pool.planes):
        plane = f32_at(x, line * (z * (r.dilation_z * r.h)))
        row = register(plane + pool.rows[0] * r.dilation_y * line)
        for _ in over(*pool.rows):
            for j, pixel in enumerate(spread(row.value, r.ldx, count)):
                totals[j] = joined(pool.op, totals[j], f32[pixel])
            row.value += line * r.dilation_y
    kept = pool.kept(first)
    for j, total in enumerate(totals.values()):
        f32[kept + j * f32.lanes] = total


def _join_taps(pool: Pool, first: Value, count: int, taps: Value, begun: Value) -> list[Value]:
    """Join some taps of the outputs from `first` on, each to what was begun."""
    r, f32 = pool.slots, pool.f32
    totals = registers([begun] * count)
    at = register(pool.kept(first * r.stride_x))
    for _ in over(taps):
        for t, column in enumerate(spread(at.value, r.stride_x * f32.lanes, count)):
            totals[t] = merged(pool.op, totals[t], f32[column])
        at.value += r.dilation_x * f32.lanes
    return totals.values()


def _keep_results(pool: Pool, first: Value, totals: list[Value], left: Value) -> None:
    """Put what is pooled into the buffer from output `first` on: behind it, nobody wants these columns."""
    r, f32 = pool.slots, pool.f32
    kept = pool.kept(first)
    for t, total in enumerate(totals):
        at = left + (first + t) * r.stride_x
        count = pool.high * _wide(r, at) if pool.op == "average" else None
        f32[kept + t * f32.lanes] = finished(pool.op, total, count)


def _wide(r: Any, left: Value) -> Value:
    """The columns of a window, which begins at `left`, that count in an average."""
    included = r.include_pad != 0
    end = choose(included, r.w + r.far_pad_x, r.w)
    inside = (left >= 0) & (left + r.k_w * r.dilation_x <= r.w)
    found = register(r.k_w)
    with when(~inside):
        before = choose(included, 0, steps(0, left, r.dilation_x, r.k_w))
        found.value = steps(end, left, r.dilation_x, r.k_w) - before
    return found.value
