"""arg max and arg min of [outer, n, inner] along n, first or last index of equal elements, as int64. NaN counts as the
extreme; n is at least 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..isa.stores import store_first
from ..isa.tiers import Tier
from ..lang import BIT, I32, I64, Type, Value, called, choose, during, either, integer, is_nan, register, repeat
from .along_axis import Share, along_axis, columns, greater, less, limits, load, planes, row_total, vector
from .rows import ARG


class Order(NamedTuple):
    """The order of elements: `better` of two, from `start` on; `turn` maps elements to it, and results back."""

    better: Callable[[Value, Value], Value]
    start: float
    wins: Callable[[Value, Value], Value]
    turn: Callable[[Value], Value]


def make(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel for an element type; its record is ARG."""
    kind = vector(tier, element)
    low, high = limits(kind)

    def part(r: Any, share: Share) -> None:
        if not kind.real:
            _find(kind, tier, Order(greater, low, lambda x, y: x > y, _turning(r, kind.number)), r, share)
            return
        with either(r.least != 0) as (least, largest):
            with least:
                _find(kind, tier, Order(less, high, lambda x, y: ~(x >= y) & ~is_nan(y), lambda x: x), r, share)
            with largest:
                _find(kind, tier, Order(greater, low, lambda x, y: ~(x <= y) & ~is_nan(y), lambda x: x), r, share)

    return along_axis(ARG, part)


def _turning(r: Any, number: Type) -> Callable[[Value], Value]:
    """A bijection of whole numbers under which the extreme becomes the greatest signed number."""
    bits = -r.least ^ r.signed - 1 << number.bits - 1
    return lambda x: x ^ bits.to(x.type.number)


def _find(kind: Type, tier: Tier, order: Order, r: Any, share: Share) -> None:
    """In rows of neighbors, or in columns, bytes of which are taken as i32."""
    with either(r.inner == 1) as (rows, several):
        with rows:
            for xs, ys in planes(r, share, kind.number, I64):
                ys[0] = _in_row(kind, xs, r, order)
        with several:
            for xs, ys in planes(r, share, kind.number, I64):
                for v, i, rest in columns(I32.vector(tier.lanes) if kind.bits == 8 else kind, share):
                    store_first(_in_columns(kind.like(v), xs + i, r, order, rest), ys + i, rest)


def _in_row(kind: Type, xs: Value, r: Any, order: Order) -> Value:
    """The index of the extreme in a row of n neighbors: first the extreme, then its index, which is one of the row's
    also where another thread writes to a feed meanwhile.
    """
    better, start, _, turn = order
    best = turn(kind(row_total(kind, xs, r.n, start, better, turn)))
    at, here = register(0), register(0)
    with either(r.last != 0) as (last, first):
        with last:
            at.value = r.n - 1
            for _ in during(lambda: (at.value > 0) & ~_is(xs[at.value], best[0])):
                at.value -= 1
        with first:
            for _ in during(lambda: (here.value == 0) & (at.value < r.n)):
                mask = kind.below(r.n - at.value)
                found = _is(load(kind, xs + at.value, mask), best) & mask
                here.value = found.bits(integer(kind.lanes, signed=False)).to(I64)
                at.value += kind.lanes
            at.value += called("llvm.cttz.i64", I64, here.value, BIT(0)) - kind.lanes
            at.value = choose(at.value < r.n, at.value, 0)
    return at.value


def _is(x: Value, best: Value) -> Value:
    # Where there is a NaN, that is the best, and it equals nothing.
    return (x == best) | is_nan(x) if x.type.real else x == best


def _in_columns(kind: Type, xs: Value, r: Any, order: Order, rest: Value | None) -> Value:
    """The indices for a vector of columns; for the last of equal elements the loop runs from the end."""
    mask, wide = None if rest is None else kind.below(rest), I32.like(kind) if kind.bits == 8 else kind
    number = integer(wide.bits)
    places = number.like(kind)
    start, step = choose(r.last != 0, r.n - 1, 0), choose(r.last != 0, -1, 1)

    def see(_: Value, state: Sequence[Value]) -> Sequence[Value]:
        best, place, row = state
        now = order.turn(load(kind, xs + row * r.inner, mask).to(wide))
        wins = order.wins(now, best)
        return choose(wins, now, best), choose(wins, places(row.to(number)), place), row + step

    first = wide(order.start), places(start.to(number)), start
    return repeat(r.n, first, see, once=True)[1].to(I64)
