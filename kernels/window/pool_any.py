"""Pooling, channels last: window, strides and dilations at run time, in up to three dimensions.

Columns are pooled first, into a buffer; then their results from left to right, so that neighboring windows share them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..core.record import Record
from ..isa.tiers import Tier
from ..lang import F32, Type, Value, choose, divide, either, over, register, registers, room, smaller, whole
from .pool import columns_counted, finished, joined, loaded, merged, rows_counted, start
from .pool_across import pooled_across
from .results import finish_rows, outputs_at, walk_row
from .rows import POOL_ANY
from .window import Place, Range, brought, nest_or_across, slots, spread, taps_inside, vectors_of, window_rows

ROOM = 64
"""Columns that the buffer has room for."""
TOGETHER = 4
"""Columns, and outputs, that are pooled at a time."""


@dataclass(frozen=True)
class Group:
    """Outputs whose columns are pooled into a buffer, a vector of channels each.

    Planes and rows of the window that exist are ranges, `high` the number of its rows that counts in an average;
    `left`: the column of x at which the first window begins; `x`: the address of what is there; `sums`: that of the
    buffer.
    """

    kind: Type
    op: str
    record: Record
    args: Value
    x: Value
    left: Value
    planes: Range
    rows: Range
    high: Any
    sums: Value

    @property
    def r(self) -> Any:
        return slots(self.args, self.record)

    def kept(self, column: Any) -> Value:
        """The pointer to a column of the buffer."""
        return self.kind.number.at(self.sums) + column * self.kind.lanes


def make_pool_any(tier: Tier, op: str) -> Callable:
    """As make_pool, for any window; `across` says which are computed with pixels in lanes."""
    kind = F32.vector(tier.lanes)
    return nest_or_across(POOL_ANY, pooled_any(POOL_ANY, kind, op), pooled_across(kind, op))


def pooled_any(record: Record, kind: Type, op: str) -> Callable[[Place], None]:
    """A function that computes a row of outputs, in vectors of type `kind`."""
    size = kind.number.size

    def row_of_outputs(place: Place) -> None:
        r = slots(place.args, record)
        begin, planes, rows = taps_inside(r, place, size)
        high = rows_counted(r, place, planes, rows) if op == "average" else None
        sums = room(kind.number, kind.lanes * ROOM, align=64).address
        # As many outputs as have all of their columns in the buffer; one where that has not even all of its own, or
        # where few of the columns belong to a window.
        reach = (r.k_w - 1) * r.dilation_x + 1
        several = divide(brought(ROOM - reach, ROOM), r.stride_x) + 1
        most = choose(r.stride_x > reach * 2, 1, several)
        for column in over(*place.columns, most):
            for channel in vectors_of(r, place, kind):
                here = replace(place, channel=channel)
                left = column * r.stride_x - r.pad_x
                x = begin + size * (left * r.ldx + channel)
                count = smaller(place.columns[1] - column, most)
                _pool_group(Group(kind, op, record, place.args, x, left, planes, rows, high, sums), count)
                finish_rows(record, here, outputs_at(r, here, column, count, size=size), kind, sums)
        walk_row(record, place)

    return row_of_outputs


def _pool_group(group: Group, count: Value) -> None:
    """Pool `count` outputs, which replace their columns in the buffer.

    The taps of an output are pooled in several steps where they exceed the buffer.
    """
    r, begun = group.r, register(start(group.kind, group.op))
    fit = divide(ROOM - 1, r.dilation_x) + 1
    for q in over(0, r.k_w, fit):
        taps, skip = smaller(r.k_w - q, fit), q * r.dilation_x
        span = (count - 1) * r.stride_x + ((taps - 1) * r.dilation_x + 1)
        _pool_columns(replace(group, x=group.x + group.kind.number.size * (skip * r.ldx), left=group.left + skip), span)
        with either(count == 1) as (one, many):
            with one:
                (begun.value,) = _join_taps(group, 0, 1, taps, begun.value)
                _keep_results(group, 0, [begun.value])
            with many:
                end = whole(count, TOGETHER)
                for first, last, some in ((0, end, TOGETHER), (end, count, 1)):
                    for t in over(first, last, some):
                        _keep_results(group, t, _join_taps(group, t, some, taps, start(group.kind, group.op)))


def _pool_columns(group: Group, span: Value) -> None:
    """Fill the buffer with `span` columns from the group's first on."""
    low, high = brought(-group.left, span), brought(group.r.w - group.left, span)
    for begin, end in ((0, low), (high, span)):
        for j in over(begin, end):
            group.kind[group.kept(j)] = start(group.kind, group.op)
    narrow = high - low < TOGETHER
    for count, end in ((TOGETHER, choose(narrow, low, high)), (1, choose(narrow, high, low))):
        for j in over(low, end, count):
            # The last ones may have been pooled before, as others' last ones.
            _pool_some(group, smaller(j, high - count), count)


def _pool_some(group: Group, first: Value, count: int) -> None:
    """Pool some columns into the buffer from `first` on."""
    r, kind = group.r, group.kind
    x = group.x + kind.number.size * (first * r.ldx)
    totals = registers([start(kind, group.op)] * count)
    for row, _ in window_rows(r, kind.number.at(x), group.planes, group.rows):
        for j, pixel in enumerate(spread(row, r.ldx, count)):
            totals[j] = joined(group.op, totals[j], loaded(kind, pixel))
    for j, total in enumerate(totals.values()):
        kind[group.kept(first) + j * kind.lanes] = total


def _join_taps(group: Group, first: Any, count: int, taps: Value, begun: Value) -> list[Value]:
    """Combine some taps with the partial results of the outputs from `first` on."""
    r, kind = group.r, group.kind
    totals = registers([begun] * count)
    at = register(group.kept(first * r.stride_x))
    for _ in over(taps):
        for t, column in enumerate(spread(at.value, r.stride_x * kind.lanes, count)):
            totals[t] = merged(group.op, totals[t], kind[column])
        at.value = at.value + r.dilation_x * kind.lanes
    return totals.values()


def _keep_results(group: Group, first: Any, totals: list[Value]) -> None:
    """Store the results of the outputs from `first` on over columns of the buffer that no later output reads."""
    r, kind, kept = group.r, group.kind, group.kept(first)
    for t, total in enumerate(totals):
        left = group.left + (first + t) * r.stride_x
        count = group.high * columns_counted(r, left) if group.op == "average" else None
        kind[kept + t * kind.lanes] = finished(group.op, total, count)
