"""f32 pooling, channels last: window, strides and dilations at run time, in up to three dimensions.

Columns are pooled first, into a buffer; then their results from left to right, so that neighboring windows share them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..isa.loops import lesser, loop, variable
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector
from ..pointwise.epilogue import buffer
from .pool import finished, joined, merged, padded_rows, start
from .results import Outputs, finish_rows, walk_row
from .rows import POOL
from .window import Place, brought, nest, slots, spread, steps, taps_inside

ROOM = 64
"""Columns that the buffer has room for."""
TOGETHER = 4
"""Columns that are pooled together, and outputs."""


def make_pool_any(tier: Tier, op: str) -> Callable:
    """As make_pool, for any window."""

    def emit_row(b: Any, place: Place) -> None:
        v = Vector(b, tier)
        r = slots(b, place.args, POOL)
        begin, planes, rows = taps_inside(b, r, place)
        high = b.mul(b.sub(planes[1], planes[0]), b.sub(rows[1], rows[0]))
        if op == "average":
            high = b.select(b.icmp_signed("!=", r.include_pad, I64(0)), padded_rows(b, r, place), high)
        sums = buffer(b, 4 * tier.lanes * ROOM)
        # As many outputs as have all of their columns in the buffer; one where that has not even all of its own, or
        # where few of the columns belong to a window.
        reach = b.add(b.mul(b.sub(r.kw, I64(1)), r.dw), I64(1))
        several = b.add(b.udiv(brought(b, b.sub(I64(ROOM), reach), I64(ROOM)), r.sw), I64(1))
        gaps = b.icmp_signed(">", r.sw, b.mul(reach, I64(2)))
        group = b.select(gaps, I64(1), several)
        with loop(b, 0, r.ow, group) as column, loop(b, place.channel, place.end, tier.lanes) as channel:
            here = replace(place, channel=channel)
            left = b.sub(b.mul(column, r.sw), r.pad_left)
            x = b.add(begin, b.shl(b.add(b.mul(left, r.ldx), channel), I64(2)))
            count = lesser(b, b.sub(r.ow, column), group)
            _pool_group(v, op, here, x, left, count, (planes, rows), high, sums)
            pixel = b.add(b.mul(place.row, r.ow), column)
            in_batch = b.add(b.mul(place.image, b.mul(b.mul(r.od, r.oh), r.ow)), pixel)
            y = b.add(r.y, b.shl(b.add(b.mul(in_batch, r.ldy), channel), I64(2)))
            finish_rows(v, POOL, here, Outputs(y, pixel, count), sums)

    return nest(POOL, emit_row, walk_row)


def _pool_group(
    v: Vector, op: str, place: Place, x: Any, left: Any, count: Any, inside: Any, high: Any, sums: Any
) -> None:
    """Pool `count` outputs, which replace their columns in the buffer; x: the address of what is in column `left`.

    Those of one output come some at a time where they are more than fit.
    """
    b = v.b
    r = slots(b, place.args, POOL)
    begun = variable(b, start(v, op))
    fit = b.add(b.udiv(I64(ROOM - 1), r.dw), I64(1))
    with loop(b, 0, r.kw, fit) as q:
        taps, skip = lesser(b, b.sub(r.kw, q), fit), b.mul(q, r.dw)
        span = b.add(b.mul(b.sub(count, I64(1)), r.sw), b.add(b.mul(b.sub(taps, I64(1)), r.dw), I64(1)))
        _pool_columns(v, op, place, b.add(x, b.shl(b.mul(skip, r.ldx), I64(2))), b.add(left, skip), span, inside, sums)
        with b.if_else(b.icmp_signed("==", count, I64(1))) as (one, many):
            with one:
                total = _join_taps(v, op, place, I64(0), 1, taps, sums, b.load(begun))
                b.store(total[0], begun)
                _keep_results(v, op, place, I64(0), total, left, high, sums)
            with many:
                whole = b.and_(count, I64(-TOGETHER))
                for first, end, some in ((I64(0), whole, TOGETHER), (whole, count, 1)):
                    with loop(b, first, end, some) as t:
                        totals = _join_taps(v, op, place, t, some, taps, sums, start(v, op))
                        _keep_results(v, op, place, t, totals, left, high, sums)


def _pool_columns(v: Vector, op: str, place: Place, x: Any, left: Any, span: Any, inside: Any, sums: Any) -> None:
    """Fill the buffer with `span` columns from `left` on, of which the first is at x."""
    b = v.b
    r = slots(b, place.args, POOL)
    low, high = brought(b, b.neg(left), span), brought(b, b.sub(r.w, left), span)
    for begin, end in ((I64(0), low), (high, span)):
        with loop(b, begin, end, 1) as j:
            v.store(start(v, op), v.at(v.pointer(sums), b.mul(j, I64(v.lanes))))
    narrow = b.icmp_signed("<", b.sub(high, low), I64(TOGETHER))
    for count, end in ((TOGETHER, b.select(narrow, low, high)), (1, b.select(narrow, high, low))):
        with loop(b, low, end, count) as j:
            # The last ones may have been pooled before, as others' last ones.
            first = lesser(b, j, b.sub(high, I64(count)))
            _pool_some(v, op, place, b.add(x, b.shl(b.mul(first, r.ldx), I64(2))), first, count, inside, sums)


def _pool_some(v: Vector, op: str, place: Place, x: Any, first: Any, count: int, inside: Any, sums: Any) -> None:
    """Pool some columns, of which the first is at x, into the buffer from `first` on."""
    b, (planes, rows) = v.b, inside
    r = slots(b, place.args, POOL)
    line = b.mul(r.w, r.ldx)
    totals = [variable(b, start(v, op)) for _ in range(count)]
    with loop(b, planes[0], planes[1], 1) as z:
        plane = v.at(v.pointer(x), b.mul(line, b.mul(z, b.mul(r.dd, r.h))))
        row = variable(b, v.at(plane, b.mul(b.mul(rows[0], r.dh), line)))
        with loop(b, rows[0], rows[1], 1):
            for total, pixel in zip(totals, spread(b, b.load(row), r.ldx, count), strict=True):
                b.store(joined(v, op, b.load(total), v.load(pixel)), total)
            b.store(v.at(b.load(row), b.mul(line, r.dh)), row)
    kept = v.at(v.pointer(sums), b.mul(first, I64(v.lanes)))
    for j, total in enumerate(totals):
        v.store(b.load(total), v.at(kept, j * v.lanes))


def _join_taps(v: Vector, op: str, place: Place, first: Any, count: int, taps: Any, sums: Any, begun: Any) -> list[Any]:
    """Join some taps of the outputs from `first` on, each to what was begun."""
    b = v.b
    r = slots(b, place.args, POOL)
    totals = [variable(b, begun) for _ in range(count)]
    at = variable(b, v.at(v.pointer(sums), b.mul(b.mul(first, r.sw), I64(v.lanes))))
    with loop(b, 0, taps, 1):
        for total, column in zip(totals, spread(b, b.load(at), b.mul(r.sw, I64(v.lanes)), count), strict=True):
            b.store(merged(v, op, b.load(total), v.load(column)), total)
        b.store(v.at(b.load(at), b.mul(r.dw, I64(v.lanes))), at)
    return [b.load(total) for total in totals]


def _keep_results(
    v: Vector, op: str, place: Place, first: Any, totals: list[Any], left: Any, high: Any, sums: Any
) -> None:
    """Put what is pooled into the buffer from output `first` on: behind it, nobody wants these columns."""
    b = v.b
    r = slots(b, place.args, POOL)
    kept = v.at(v.pointer(sums), b.mul(first, I64(v.lanes)))
    for t, total in enumerate(totals):
        at = b.add(left, b.mul(b.add(first, I64(t)), r.sw))
        number = b.mul(high, _wide(b, r, at)) if op == "average" else None
        v.store(finished(v, op, total, number), v.at(kept, t * v.lanes))


def _wide(b: Any, r: Any, left: Any) -> Any:
    """The columns of a window, which begins at `left`, that count in an average."""
    included = b.icmp_signed("!=", r.include_pad, I64(0))
    end = b.select(included, b.add(r.w, r.pad_right), r.w)
    inside = b.and_(b.icmp_signed(">=", left, I64(0)), b.icmp_signed("<=", b.add(left, b.mul(r.kw, r.dw)), r.w))
    found = variable(b, r.kw)
    with b.if_then(b.not_(inside)):
        before = b.select(included, I64(0), steps(b, I64(0), left, r.dw, r.kw))
        b.store(b.sub(steps(b, end, left, r.dw, r.kw), before), found)
    return b.load(found)
