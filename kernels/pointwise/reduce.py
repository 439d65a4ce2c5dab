"""Reductions of [outer, n, inner] over n.

For the global average pooling of a channels-last image n is its pixels, inner its channels. A NaN makes its result NaN.
Over n = 0 elements a sum is 0, prod 1, a mean NaN, and max the least number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

from ..isa import functions as f
from ..isa.stores import store_first
from ..isa.tiers import Tier
from ..lang import BF16, F32, I32, Type, Value, choose, either, integer, is_nan, over, register, total, whole
from ..lang.lines import UNROLL, Combine, fold
from .along_axis import Before, Share, along_axis, columns, greater, less, limits, load, planes, row_total, vector
from .epilogue import Area, Lines, walk_from
from .rows import REDUCE

Run = Callable[[float, Combine, Before], Value]
"""run(start, combine, before): the fold of `combine` over `before(x)`, from `start` on."""


def _same(x: Value) -> Value:
    return x


class Rule(NamedTuple):
    """A reduction: the fold of `combine` over `before(x)`, from `start` on."""

    start: float
    combine: Combine
    before: Before = _same


def _rule(op: str, kind: Type) -> Rule:
    low, high = limits(kind)
    return {
        "sum": Rule(0, operator.add),
        "sum_square": Rule(0, operator.add, lambda x: x * x),
        "sum_abs": Rule(0, operator.add, abs),
        "prod": Rule(1, operator.mul),
        "max": Rule(low, greater),
        "min": Rule(high, less),
    }[op]


def make(tier: Tier, element: str, op: str) -> Callable[..., None]:
    """The kernel for one of `rows.REDUCTIONS`; its record is REDUCE. Its chain is walked over results of f32."""
    kind, stored = vector(tier, element), BF16 if element == "bf16" else None
    unsigned = integer(kind.bits, signed=False).like(kind)

    def part(r: Any, share: Share) -> None:
        if not kind.real and op in ("max", "min"):
            with either(r.signed == 0) as (without, signed):
                with without:
                    _reduce(unsigned, op, r, share)
                with signed:
                    _reduce(kind, op, r, share)
        else:
            _reduce(kind, op, r, share, stored)
        if kind.number is F32:
            _walked(r, share)

    return along_axis(REDUCE, part)


def _reduce(kind: Type, op: str, r: Any, share: Share, stored: Type | None = None) -> None:
    """Rows of neighbors, or columns; stored: the type of x in memory where that is not `kind`'s."""
    number, one = kind.number, kind.vector(1)
    source, extreme = stored or number, number is F32 and op in ("max", "min")
    with either(r.inner == 1) as (rows, several):
        with rows:
            for xs, ys in planes(r, share, source, number):
                one[ys] = _extreme(kind, op, xs, r.n) if extreme else _reduced(one, op, r, _row(kind, xs, r.n))
        with several:
            for xs, ys in planes(r, share, source, number):
                for v, i, rest in columns(kind, share):
                    at = xs + i
                    y = _column_extreme(v, op, at, r, rest) if extreme else _reduced(v, op, r, _column(v, at, r, rest))
                    store_first(y, ys + i, rest)


def _walked(r: Any, share: Share) -> None:
    """Walk the record's chain over the thread's results."""
    count, width, alone = share.end - share.first, share.right - share.left, r.inner == 1
    lines = Lines(r.y + 4 * (share.first * r.inner + share.left), 4 * r.inner)
    walk_from(r, Area(0, 0, 0, choose(alone, 1, count), choose(alone, count, width)), lines, lines)


def _reduced(kind: Type, op: str, r: Any, run: Run) -> Value:
    """The reduction `op` of the elements that `run` walks."""
    if op == "log_sum_exp":
        return _log_sum_exp(kind, run)
    y = run(*_rule(op, kind))
    return y / r.divisor.to(I32).bits(F32) if op == "sum" and kind.number is F32 else y


def _log_sum_exp(kind: Type, run: Run) -> Value:
    top = run(-math.inf, f.maximum, _same)
    # Nothing may be subtracted from an infinity of the same sign.
    shift = choose(abs(top) == math.inf, 0.0, top)
    one = shift[0] if kind.lanes == 1 else None

    def power(x: Value) -> Value:
        return f.exp(x - (shift if x.type is kind or one is None else one))

    return f.log(run(0, operator.add, power)) + shift


def _row(kind: Type, xs: Value, n: Value) -> Run:
    """The fold over n neighbors."""
    return lambda start, combine, before: kind.vector(1)(row_total(kind, xs, n, start, combine, before))


def _extreme(kind: Type, op: str, xs: Value, n: Value) -> Value:
    """The greatest or the least of n neighbors, NaN if one is: NaNs are noted apart, so that each vector takes three
    instructions and waits for one.
    """
    start, further = _further(op, kind)
    seen = {v: register(I32.like(v)(0)) for v in (kind.times(UNROLL), kind)}

    def noted(v: Type, i: Value, mask: Value | None) -> Value:
        x = load(v, xs + i, mask)
        seen[v].value = seen[v].value | _unordered(x)
        return x

    y = total(kind, n, start, further, noted)
    parts = [fold(operator.or_, each.value) for each in seen.values()]
    return kind.vector(1)(choose(reduce(operator.or_, parts)[0] != 0, math.nan, y))


def _column_extreme(kind: Type, op: str, xs: Value, r: Any, rest: Value | None) -> Value:
    """As `_extreme`, of each of a vector of columns."""
    start, further = _further(op, kind)
    mask = None if rest is None else kind.below(rest)
    best, seen = register(kind(start)), register(I32.like(kind)(0))
    for row in over(r.n):
        x = load(kind, xs + row * r.inner, mask)
        best.value, seen.value = further(best.value, x), seen.value | _unordered(x)
    return choose(seen.value != 0, math.nan, best.value)


def _further(op: str, kind: Type) -> tuple[float, Combine]:
    """Where max or min starts, and the greater or lesser one, which is the first where the second is NaN."""

    def further(best: Value, x: Value) -> Value:
        return choose(x > best if op == "max" else x < best, x, best)

    return _rule(op, kind).start, further


def _unordered(x: Value) -> Value:
    return choose(is_nan(x), I32.like(x.type)(-1), 0)


def _column(kind: Type, xs: Value, r: Any, rest: Value | None) -> Run:
    """The folds over a vector of columns of n elements: even and odd ones apart, then both combined."""
    mask = None if rest is None else kind.below(rest)

    def run(start: float, combine: Combine, before: Before) -> Value:
        even, odd = register(kind(start)), register(kind(start))

        def element(row: Value) -> Value:
            return before(load(kind, xs + row * r.inner, mask))

        main = whole(r.n, 2)
        for row in over(0, main, 2):
            even.value = combine(even.value, element(row))
            odd.value = combine(odd.value, element(row + 1))
        for row in over(main, r.n):
            even.value = combine(even.value, element(row))
        return combine(even.value, odd.value)

    return run
