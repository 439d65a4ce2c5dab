"""Reductions of [outer, n, inner] over n.

Global average pooling of a channels-last image: n its pixels, inner its channels. A NaN makes its result NaN. Over
nothing (n = 0) sums give 0, prod 1, min inf, max -inf, mean NaN.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.record import fields
from ..isa import functions as f
from ..isa.tiers import Tier
from ..lang import F32, I32, Type, Value, along, choose, over, register, total, traced, whole
from .along_axis import along_axis, columns_of
from .epilogue import Area, Lines, walk_from
from .rows import REDUCE

Combine = Callable[[Value, Value], Value]
Run = Callable[[float, Combine, Callable[[Value], Value]], Value]
"""run(start, combine, before): all `before(x)` combined, beginning with `start`."""


@dataclass(frozen=True)
class Reducer:
    """`combine` of all `before(x)`, beginning with `start`."""

    start: float
    combine: Combine
    before: Callable[[Value], Value] = lambda x: x


REDUCERS: dict[str, Reducer] = {
    "sum": Reducer(0, operator.add),
    "sum_square": Reducer(0, operator.add, lambda x: x * x),
    "sum_abs": Reducer(0, operator.add, abs),
    "prod": Reducer(1, operator.mul),
    "max": Reducer(-math.inf, f.maximum),
    "min": Reducer(math.inf, f.minimum),
}


def make(tier: Tier, op: str, last: bool) -> Callable[..., None]:
    """The kernel for one of REDUCERS, or "log_sum_exp"; its record is REDUCE. Its chain is walked over the results."""
    return along_axis(last, (_row if last else _columns)(F32.vector(tier.lanes), op), finish=_walked)


@traced
def _walked(args: Value, y: Value, rows: Any, columns: Any, step: Any) -> None:
    """Walk a record's chain over rows x columns of results at y."""
    walk_from(fields(args, REDUCE), Area(0, 0, 0, rows, columns), Lines(y, step), Lines(y, step))


def _reduced(kind: Type, op: str, args: Value, run: Run) -> Value:
    """The reduction of `op` of the elements that `run` walks."""
    if op != "log_sum_exp":
        r = REDUCERS[op]
        y = run(r.start, r.combine, r.before)
        return y / fields(args, REDUCE).divisor.to(I32).bits(F32) if op == "sum" else y
    top = run(-math.inf, f.maximum, lambda x: x)
    # Nothing may be subtracted from an infinity of the same sign.
    shift = choose(abs(top) == math.inf, 0.0, top)
    one = shift[0] if kind.lanes == 1 else None

    def power(x: Value) -> Value:
        return f.exp(x - (shift if x.type is kind or one is None else one))

    return f.log(run(0, operator.add, power)) + shift


def _row(f32: Type, op: str) -> Any:
    """What reduces one contiguous row of n elements."""

    @traced
    def row(args: Value, y: Value, x: Value, n: Value) -> None:
        one = F32.vector(1)

        def run(start: float, combine: Combine, before: Callable[[Value], Value]) -> Value:
            return one(total(f32, n, start, combine, lambda v, i, mask: before(v[F32.at(x) + i, mask])))

        one[y] = _reduced(one, op, args, run)

    return row


def _columns(f32: Type, op: str) -> Any:
    """What reduces columns."""

    @traced
    def columns(args: Value, y: Value, x: Value, columns: Any) -> None:
        n, inner, left, right = columns_of(columns)
        xs, ys = F32.at(x), F32.at(y)
        for v, i, mask in along(f32, left, right):

            def element(r: Any, v: Type = v, i: Value = i, mask: Any = mask) -> Value:
                return v[xs + (i + r * inner), mask]

            def run(start: float, combine: Combine, before: Callable, v: Type = v, element: Any = element) -> Value:
                return _down(v, n, start, combine, lambda r: before(element(r)))

            v[ys + i, mask] = _reduced(v, op, args, run)

    return columns


def _down(f32: Type, n: Value, start: float, combine: Combine, element: Callable[[Value], Value]) -> Value:
    """element(0), element(1) ... element(n - 1) combined: even and odd ones apart, then both."""
    even, odd = register(f32(start)), register(f32(start))
    main = whole(n, 2)
    for r in over(0, main, 2):
        even.value = combine(even.value, element(r))
        odd.value = combine(odd.value, element(r + 1))
    for r in over(main, n):
        even.value = combine(even.value, element(r))
    return combine(even.value, odd.value)
