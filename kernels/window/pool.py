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
from .results import Outputs, finish_rows
from .rows import POOL
from .window import Place, brought, nest, slots, spread, steps, taps_inside

ROOM = 64
"""Columns that the buffer has room for."""
COLUMNS, OUTPUTS = 4, 4
"""Columns that are pooled together, and outputs."""


def make_pool(tier: Tier, op: str) -> Callable:
    """y[n, i, j, c] is what the epilogue makes of `op` over the x[n, i*sh + p*dh - pad_top, j*sw + q*dw - pad_left, c]
    inside of the image; and likewise for planes.

    An average divides by their number, with `include_pad` by that of the places inside of the padded image.
    """

    def emit_row(b: Any, place: Place) -> None:
        v = Vector(b, tier)
        r = slots(b, place.args, POOL)
        begin, planes, rows = taps_inside(b, r, place)
        line = b.mul(r.w, r.ldx)
        plane, line = b.mul(b.mul(r.dd, r.h), line), b.mul(r.dh, line)
        sums = buffer(b, 4 * v.lanes * ROOM)
        kept = v.pointer(sums)
        reach = b.add(b.mul(b.sub(r.kw, I64(1)), r.dw), I64(1))
        # Taps of a row whose columns fit the buffer; where these are all of them, outputs whose columns do.
        taps = lesser(b, r.kw, b.add(b.udiv(I64(ROOM - 1), r.dw), I64(1)))
        spare = b.sub(I64(ROOM), reach)
        several = b.and_(b.icmp_signed(">=", spare, I64(0)), b.icmp_signed("<=", r.sw, b.mul(reach, I64(2))))
        group = b.select(several, b.add(b.udiv(b.select(several, spare, I64(0)), r.sw), I64(1)), I64(1))
        high = b.mul(b.sub(planes[1], planes[0]), b.sub(rows[1], rows[0]))
        if op == "average":
            high = b.select(b.icmp_signed("!=", r.include_pad, I64(0)), _padded(b, r, place), high)

        def pooled(x: Any, first: Any, count: int) -> None:
            """Pool some columns, of which x is the first, into the buffer from `first` on."""
            totals = [variable(b, start(v, op)) for _ in range(count)]
            with loop(b, *planes, 1) as z, loop(b, *rows, 1) as p:
                at = v.at(x, b.add(b.mul(z, plane), b.mul(p, line)))
                for total, pixel in zip(totals, spread(b, at, r.ldx, count), strict=True):
                    b.store(joined(v, op, b.load(total), v.load(pixel)), total)
            for j, total in enumerate(totals):
                v.store(b.load(total), v.at(kept, b.mul(b.add(first, I64(j)), I64(v.lanes))))

        def columns(x: Any, left: Any, span: Any) -> None:
            """Fill the buffer with `span` columns from `left` on; x is the first."""
            low, high = brought(b, b.neg(left), span), brought(b, b.sub(r.w, left), span)
            for ends in ((I64(0), low), (high, span)):
                with loop(b, *ends, 1) as j:
                    v.store(start(v, op), v.at(kept, b.mul(j, I64(v.lanes))))
            whole = b.add(low, b.and_(b.sub(high, low), I64(-COLUMNS)))
            with loop(b, low, whole, COLUMNS) as j:
                pooled(v.at(x, b.mul(j, r.ldx)), j, COLUMNS)
            with loop(b, whole, high, 1) as j:
                pooled(v.at(x, b.mul(j, r.ldx)), j, 1)

        def outputs(first: Any, count: int, some: Any, left: Any, begun: Any, final: Any) -> None:
            """Make `count` outputs from `first` on of `some` taps in the buffer; they replace columns that are done."""
            at = v.at(kept, b.mul(b.mul(first, r.sw), I64(v.lanes)))
            step = b.mul(r.sw, I64(v.lanes))
            totals = [variable(b, v.load(kept) if False else start(v, op)) for _ in range(count)]
            if begun is not None:
                b.store(b.load(begun), totals[0])
            with loop(b, 0, some, 1) as q:
                tap = v.at(at, b.mul(b.mul(q, r.dw), I64(v.lanes)))
                for total, column in zip(totals, spread(b, tap, step, count), strict=True):
                    b.store(merged(v, op, b.load(total), v.load(column)), total)
            if begun is not None:
                b.store(b.load(totals[0]), begun)
            for t, total in enumerate(totals):
                number = None
                if op == "average":
                    here = b.add(left, b.mul(b.add(first, I64(t)), r.sw))
                    number = b.mul(high, _wide(b, r, here))
                result = finished(v, op, b.load(total), number)
                v.store(result, v.at(kept, b.mul(b.add(first, I64(t)), I64(v.lanes))))

        def group_of(column: Any, channel: Any) -> None:
            left = b.sub(b.mul(column, r.sw), r.pad_left)
            count = lesser(b, b.sub(r.ow, column), group)
            x = v.at(v.at(v.pointer(begin), channel), b.mul(left, r.ldx))
            begun = variable(b, start(v, op))
            with loop(b, 0, r.kw, taps) as q:
                some = lesser(b, b.sub(r.kw, q), taps)
                skip = b.mul(q, r.dw)
                span = b.add(b.mul(b.sub(count, I64(1)), r.sw), b.add(b.mul(b.sub(some, I64(1)), r.dw), I64(1)))
                columns(v.at(x, b.mul(skip, r.ldx)), b.add(left, skip), span)
                with b.if_else(b.icmp_signed("==", count, I64(1))) as (one, many):
                    with one:
                        outputs(I64(0), 1, some, left, begun, None)
                    with many:
                        whole = b.and_(count, I64(-OUTPUTS))
                        with loop(b, 0, whole, OUTPUTS) as t:
                            outputs(t, OUTPUTS, some, left, None, None)
                        with loop(b, whole, count, 1) as t:
                            outputs(t, 1, some, left, None, None)
            pixel = b.add(b.mul(place.row, r.ow), column)
            image = b.mul(place.image, b.mul(b.mul(r.od, r.oh), r.ow))
            y = b.add(r.y, b.shl(b.add(b.mul(b.add(image, pixel), r.ldy), channel), I64(2)))
            finish_rows(v, POOL, replace(place, channel=channel), Outputs(y, pixel, count), sums)

        with loop(b, 0, r.ow, group) as column, loop(b, place.channel, place.end, v.lanes) as channel:
            group_of(column, channel)

    return nest(POOL, emit_row)


def start(v: Vector, op: str) -> Any:
    """What a pool has before its first element."""
    return v.const(float("-inf") if op == "max" else 0)


def joined(v: Vector, op: str, total: Any, x: Any) -> Any:
    """A pool with one more element x.

    max of a window with some NaN is NaN or the largest number, depending on where the NaN is, as in
    onnxruntime; and NaN when there is nothing else.
    """
    if op == "max":
        return v.b.select(v.b.fcmp_ordered(">", total, x), total, x)
    if op == "lp2":
        return v.fma(x, x, total)
    return v.b.fadd(total, v.call("fabs", x) if op == "lp1" else x)


def merged(v: Vector, op: str, total: Any, other: Any) -> Any:
    """Two pools of the same kind as one."""
    return joined(v, op, total, other) if op == "max" else v.b.fadd(total, other)


def finished(v: Vector, op: str, total: Any, count: Any) -> Any:
    """The result of a pool; `count` (int64) elements count in an average."""
    if op == "average":
        return v.b.fdiv(total, v.splat(v.b.sitofp(count, v.type.element)))
    return v.call("sqrt", total) if op == "lp2" else total


def _padded(b: Any, r: Any, place: Place) -> Any:
    """The planes by rows of a window that are inside of the padded image."""
    z, row = b.udiv(place.row, r.oh), b.urem(place.row, r.oh)
    front, up = b.sub(b.mul(z, r.sd), r.pad_front), b.sub(b.mul(row, r.sh), r.pad_top)
    return b.mul(steps(b, b.add(r.d, r.pad_back), front, r.dd, r.kd), steps(b, b.add(r.h, r.pad_bottom), up, r.dh, r.kh))


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
