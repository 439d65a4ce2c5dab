"""Reductions of [outer, n, inner] over n.

Global average pooling of a channels-last image: n its pixels, inner its channels. A NaN makes its result NaN. Over
nothing (n = 0) sums give 0, prod 1, min inf, max -inf, mean NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.record import loaded
from ..isa import functions as f
from ..isa.loops import each, loop, total, variable, whole
from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, Vector, emits
from .along_axis import along_axis
from .epilogue import walk_from
from .rows import REDUCE


@dataclass(frozen=True)
class Reducer:
    """`combine` of all `before(x)`, beginning with `start`."""

    start: float
    combine: Callable[[Vector, Any, Any], Any]
    before: Callable[[Vector, Any], Any] = lambda v, x: x


def _add(v: Vector, a: Any, b: Any) -> Any:
    return v.b.fadd(a, b)


REDUCERS: dict[str, Reducer] = {
    "sum": Reducer(0, _add),
    "sum_square": Reducer(0, _add, lambda v, x: v.b.fmul(x, x)),
    "sum_abs": Reducer(0, _add, lambda v, x: v.call("fabs", x)),
    "prod": Reducer(1, lambda v, a, b: v.b.fmul(a, b)),
    "max": Reducer(-math.inf, f.maximum),
    "min": Reducer(math.inf, f.minimum),
}


def make(tier: Tier, op: str, last: bool) -> Callable[..., None]:
    """The kernel for one of REDUCERS, or "log_sum_exp"; its record is REDUCE. Its chain is walked over the results."""
    return along_axis(last, (_row if last else _columns)(tier, op), finish=_walked())


def _walked() -> Any:
    """An intrinsic that walks a record's chain over rows x columns of results at y."""

    @emits
    def walked(b: Any, args: Any, y: Any, rows: Any, columns: Any, step: Any) -> None:
        slots = loaded(b, args, REDUCE)
        zero = I64(0)
        walk_from(b, slots, zero, zero, zero, rows, columns, y, step, y, step)

    return walked


def _reduced(v: Vector, op: str, args: Any, run: Callable[[float, Any, Any], Any]) -> Any:
    """The reduction of `op`, where run(start, combine, before) walks the elements; `before` takes (w, x)."""
    if op != "log_sum_exp":
        r = REDUCERS[op]
        y = run(r.start, r.combine, r.before)
        if op != "sum":
            return y
        divisor = v.b.bitcast(v.b.trunc(loaded(v.b, args, REDUCE).divisor, I32), F32)
        return v.b.fdiv(y, v.splat(divisor))
    top = run(-math.inf, f.maximum, lambda w, x: x)
    # Nothing may be subtracted from an infinity of the same sign.
    infinite = v.b.fcmp_ordered("==", v.call("fabs", top), v.const(math.inf))
    shift = v.b.select(infinite, v.const(0), top)

    def power(w: Vector, x: Any) -> Any:
        same = shift if w.lanes == v.lanes else w.splat(v.b.extract_element(shift, I32(0)))
        return f.exp(w, w.b.fsub(x, same))

    return v.b.fadd(f.log(v, run(0, _add, power)), shift)


def _row(tier: Tier, op: str) -> Any:
    """An intrinsic that reduces one contiguous row of n elements."""

    @emits
    def row(b: Any, args: Any, y: Any, x: Any, n: Any) -> None:
        v, one = Vector(b, tier), Vector(b, tier, 1)
        x = v.pointer(x)

        def run(start: float, combine: Any, before: Any) -> Any:
            load = lambda w, i, mask: before(w, w.load(w.at(x, i), mask))  # noqa: E731
            return one.splat(total(v, n, start, combine, load))

        one.store(_reduced(one, op, args, run), v.pointer(y))

    return row


def _columns(tier: Tier, op: str) -> Any:
    """An intrinsic that reduces columns left..right, each over n elements `step` apart."""

    @emits
    def columns(b: Any, args: Any, y: Any, x: Any, n: Any, step: Any, left: Any, right: Any) -> None:
        x, y = (Vector(b, tier).pointer(p) for p in (x, y))

        def column(w: Vector, i: Any, mask: Any) -> None:
            def element(r: Any) -> Any:
                return w.load(w.at(x, b.add(i, b.mul(r, step))), mask)

            def run(start: float, combine: Any, before: Any) -> Any:
                return _down(w, n, start, combine, lambda r: before(w, element(r)))

            w.store(_reduced(w, op, args, run), w.at(y, i), mask)

        each(Vector(b, tier), left, right, column)

    return columns


def _down(v: Vector, n: Any, start: float, combine: Any, element: Callable[[Any], Any]) -> Any:
    """element(0), element(1) ... element(n - 1) combined: even and odd ones apart, then both."""
    b = v.b
    even, odd = variable(b, v.const(start)), variable(b, v.const(start))
    main = whole(b, n, 2)
    with loop(b, 0, main, 2) as r:
        b.store(combine(v, b.load(even), element(r)), even)
        b.store(combine(v, b.load(odd), element(b.add(r, I64(1)))), odd)
    with loop(b, main, n, 1) as r:
        b.store(combine(v, b.load(even), element(r)), even)
    return combine(v, b.load(even), b.load(odd))
