"""softmax and log_softmax along one axis of [outer, n, inner].

y may be x. As in NumPy, a NaN or a +inf makes all along its axis NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..isa import functions as f
from ..isa.loops import each, loop, room, smaller, thread_range, total, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, Vector, emits
from .along_axis import along_axis
from .rows import AXIS

SHORT = 8
"""Elements of rows up to which a vector of rows is done together."""


def make(tier: Tier, log: bool, last: bool) -> Callable[..., None]:
    """The kernel: `log` gives log_softmax, `last` is for an axis whose elements are neighbors."""
    if not last:
        return along_axis(False, _columns(tier, log), keeps=True)
    fields, row, short, lanes = reader(AXIS), _row(tier, log), _short_rows(tier, log), tier.lanes

    def rows(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        first, end = thread_range(r.outer, thread, threads)
        if r.n <= SHORT:
            for o in range(first, end, lanes):
                short(r.y + 4 * r.n * o, r.x + 4 * r.n * o, r.n, smaller(end - o, lanes))
        else:
            for o in range(first, end):
                row(args, r.y + 4 * r.n * o, r.x + 4 * r.n * o, r.n)

    return rows


def _short_rows(tier: Tier, log: bool) -> Any:
    """An intrinsic for up to a vector of rows of at most SHORT elements: as columns of a buffer."""

    @emits
    def short(b: Any, y: Any, x: Any, n: Any, count: Any) -> None:
        v = Vector(b, tier)
        kept = b.bitcast(room(b, v.type, SHORT), F32.as_pointer())
        x, y = v.pointer(x), v.pointer(y)

        def turn(move: Callable[[Any, Any], None]) -> None:
            with loop(b, 0, count, 1) as i, loop(b, 0, n, 1) as j:
                move(b.add(b.mul(i, n), j), b.add(b.mul(j, I64(v.lanes)), i))

        turn(lambda dense, turned: b.store(b.load(v.at(x, dense)), v.at(kept, turned)))
        _column(v, kept, kept, n, I64(v.lanes), None, log)
        turn(lambda dense, turned: b.store(b.load(v.at(kept, turned)), v.at(y, dense)))

    return short


def _larger(v: Vector, a: Any, b: Any) -> Any:
    """The larger one, b when either is NaN: one instruction. The exponentials will show the NaN."""
    return v.b.select(v.b.fcmp_ordered(">", a, b), a, b)


def _sum(v: Vector, a: Any, b: Any) -> Any:
    return v.b.fadd(a, b)


def _row(tier: Tier, log: bool) -> Any:
    """An intrinsic for one contiguous row of n elements."""

    @emits
    def row(b: Any, args: Any, y: Any, x: Any, n: Any) -> None:
        v, one = Vector(b, tier), Vector(b, tier, 1)
        x, y = v.pointer(x), v.pointer(y)
        largest = total(v, n, -math.inf, _larger, lambda w, i, mask: w.load(w.at(x, i), mask))

        def power(w: Vector, i: Any, mask: Any) -> Any:
            e = f.exp(w, b.fsub(w.load(w.at(x, i), mask), w.splat(largest)))
            if not log:
                w.store(e, w.at(y, i), mask)
            return e

        def finish(w: Vector, i: Any, mask: Any) -> None:
            if log:
                value = b.fsub(b.fsub(w.load(w.at(x, i), mask), w.splat(largest)), w.splat(scale))
            else:
                value = b.fmul(w.load(w.at(y, i), mask), w.splat(scale))
            w.store(value, w.at(y, i), mask)

        scale = b.extract_element(_scale(one, one.splat(total(v, n, 0, _sum, power)), log), I32(0))
        each(v, I64(0), n, finish)

    return row


def _scale(v: Vector, sum_: Any, log: bool) -> Any:
    """What the exponentials are multiplied by, or for log what is subtracted."""
    return f.log(v, sum_) if log else v.b.fdiv(v.const(1), sum_)


def _columns(tier: Tier, log: bool) -> Any:
    """An intrinsic for columns left..right, each along n elements `step` apart."""

    @emits
    def columns(b: Any, args: Any, y: Any, x: Any, n: Any, step: Any, left: Any, right: Any) -> None:
        v = Vector(b, tier)
        x, y = v.pointer(x), v.pointer(y)

        def column(w: Vector, i: Any, mask: Any) -> None:
            _column(w, w.at(y, i), w.at(x, i), n, step, mask, log)

        each(v, left, right, column, unroll=1)

    return columns


def _column(v: Vector, y: Any, x: Any, n: Any, step: Any, mask: Any, log: bool) -> None:
    b = v.b
    largest, sum_ = variable(b, v.const(-math.inf)), variable(b, v.const(0))
    with loop(b, 0, n, 1) as i:
        b.store(_larger(v, b.load(largest), v.load(v.at(x, b.mul(i, step)), mask)), largest)
    top = b.load(largest)
    with loop(b, 0, n, 1) as i:
        e = f.exp(v, b.fsub(v.load(v.at(x, b.mul(i, step)), mask), top))
        b.store(b.fadd(b.load(sum_), e), sum_)
        if not log:
            v.store(e, v.at(y, b.mul(i, step)), mask)
    scale = _scale(v, b.load(sum_), log)
    with loop(b, 0, n, 1) as i:
        if log:
            value = b.fsub(b.fsub(v.load(v.at(x, b.mul(i, step)), mask), top), scale)
        else:
            value = b.fmul(v.load(v.at(y, b.mul(i, step)), mask), scale)
        v.store(value, v.at(y, b.mul(i, step)), mask)
