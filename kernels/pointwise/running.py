"""Running sums and products along an axis of [outer, n, inner]: as many results as elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..isa.tiers import Tier
from ..lang import Type, Value, cases, choose, integer, over, repeat, whole
from .along_axis import Share, along_axis, planes, vector
from .rows import RUNNING

RULES = {"sum": (0, operator.add), "prod": (1, operator.mul)}


def make(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel for an element type; its record is RUNNING."""
    kind = vector(tier, element).times(2)

    def part(r: Any, share: Share) -> None:
        middle = share.left + whole(share.right - share.left, kind.lanes)
        parts = (kind, share.left, middle), (kind.vector(1), middle, share.right)

        def all_of(name: str) -> None:
            for xs, ys in planes(r, share, kind.number, kind.number, r.n):
                for v, left, right in parts:
                    for i in over(left, right, v.lanes):
                        _column(v, ys + i, xs + i, r, name)

        cases(r.operation, {i: partial(all_of, name) for i, name in enumerate(RULES)})

    return along_axis(RUNNING, part)


def _column(kind: Type, ys: Value, xs: Value, r: Any, name: str) -> None:
    start, combine = RULES[name]
    first, step = choose(r.reverse != 0, (r.n - 1) * r.inner, 0), choose(r.reverse != 0, -r.inner, r.inner)
    number = integer(kind.bits)
    exclusive = number.like(kind)(r.exclusive.to(number)) != 0

    def row(_: Value, state: Sequence[Value]) -> Sequence[Value]:
        before, place = state
        after = combine(before, kind[xs + place])
        kind[ys + place] = choose(exclusive, before, after)
        return after, place + step

    repeat(r.n, [kind(start), first], row, once=True)
