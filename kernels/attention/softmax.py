"""Online softmax: scores of a block of queries become weights, block of keys after block of keys, and scale the sums of
values.

Weights are relative to the largest score so far: where a block has a larger one, earlier sums are scaled down. They are
halves of exponentials, and so are their sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ..isa.functions import exp, half_exp, tanh
from ..lang import Value, along, choose, either, fma, larger, over, register, shuffle, tier, total, traced, when
from ..lang.types import BIT, F32, I32, U8, Type
from .rows import BLIND, MASKS, STATE


def combined(combine: Callable[[Value, Value], Value], vectors: list[Value]) -> Value:
    """Of n vectors of n lanes, a vector of what `combine` makes of the lanes of each."""
    n = len(vectors)
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        halves = [[shuffle(x, range(odd, 2 * n, 2), y) for odd in (0, 1)] for x, y in pairs]
        vectors = [combine(even, odd) for even, odd in halves]
    return vectors[0]


@traced
def begin(state: Value, line: Value) -> None:
    """The state before any score; a line is `line` bytes."""
    f32 = F32.vector(tier().lanes)
    for name, value in (("top", -math.inf), ("total", 0.0)):
        for i in over(0, line, f32.size):
            f32[state + (i + line * STATE.at(name))] = value


@traced
def look(r: Any, scores: Value, mask: Value, left: Any, right: Any, base: Value) -> None:
    """Apply `cap` and the mask to the scores left..right of a query; the largest is stored at `base`. `mask`: address
    for the first score of the row. Writes whole vectors.
    """
    f32 = F32.vector(tier().lanes)
    x, count = F32.at(scores) + left, right - left
    _cap(f32, x, count, r.cap.to(I32).bits(F32))

    def largest(term: Term) -> None:
        F32[base] = total(f32, count, -math.inf, larger, term)

    by_mask(r, x, F32.at(mask) + left, U8.at(mask) + left, largest)


Term = Callable[[Type, Value, Any], Value]
"""term(f32, i, m): the scores that a vector spans from i on."""


def by_mask(
    r: Any, x: Value, bias: Value, seen: Value, body: Callable[[Term], None], factor: Value | None = None
) -> None:
    """body(term) for the kind of mask that the record has: pointers to scores, to what is added to them, and to bools
    that say whether they are seen. Masked scores are stored; factor: times it.
    """

    def same(some: Type, i: Value, m: Any) -> Value:
        return some[x + i]

    def add(some: Type, i: Value, m: Any) -> Value:
        if factor is None:
            return some[x + i] + some[bias + i, m]
        return fma(some[x + i], factor, some[bias + i, m])

    def hide(some: Type, i: Value, m: Any) -> Value:
        if factor is None:
            return choose(U8.like(some)[seen + i] != 0, some[x + i], -math.inf)
        return choose(U8.like(some)[seen + i, m] != 0, some[x + i] * factor, -math.inf)

    def stored(term: Term, some: Type, i: Value, m: Any) -> Value:
        y = term(some, i, m)
        some[x + i] = y
        return y

    terms: dict[str, Term] = {"none": same, "f32": partial(stored, add), "bool": partial(stored, hide)}
    for kind, term in terms.items():
        with when(r.kind == MASKS.index(kind)):
            body(term)


def _cap(f32: Type, x: Value, count: Value, cap: Value) -> None:
    with when(abs(cap) > 0, likely=False):
        for some, i, _ in along(f32, 0, count, unroll=1):
            limit = some(cap)
            some[x + i] = limit * tanh(some[x + i] / limit)


@traced
def rebase(state: Value, line: Value) -> None:
    """Update the largest scores by a block's, and set the factors of earlier sums."""
    f32 = F32.vector(tier().lanes)
    for i in over(0, line, f32.size):
        at = {name: F32.at(state + (i + line * STATE.at(name))) for name in STATE}
        before, found = f32[at["top"]], f32[at["base"]]
        top = larger(before, found)
        base = choose(top == -math.inf, 0.0, top)
        factor = exp(before - base)
        f32[at["top"]] = top
        f32[at["base"]] = base
        f32[at["factor"]] = factor
        f32[at["total"]] = f32[at["total"]] * factor


@traced
def weigh(scores: Value, left: Any, right: Any, n: Value, base: Value, all_: Value) -> None:
    """Make weights of the n scores of a query, 0 outside of left..right, and sum them to `all_`. In whole vectors."""
    f32 = F32.vector(tier().lanes)
    row, least = F32.at(scores), F32[base]
    x, weights = row + left, F32.at(all_)

    def power(some: Type, i: Value, _: Any) -> Value:
        y = half_exp(some[x + i] - some(least))
        some[x + i] = y
        return y

    found = total(f32, right - left, 0, lambda p, q: p + q, power)
    weights[0] = weights[0] + found
    for some, i, m in along(f32, 0, left, unroll=1):
        some[row + i, m] = 0
    for some, i, _ in along(f32, right, n, unroll=1):
        some[row + i] = 0


@traced
def finish(r: Any, y: Value, sums: Value, all_: Value, factor: Value, first: Any, last: Any) -> None:
    """Add a block's sums of values to a row of the result, which the last block divides by the sum of weights."""
    f32 = F32.vector(tier().lanes)
    y, sums, first, last = F32.at(y), F32.at(sums), BIT(first), BIT(last)
    weight = F32[all_]
    nothing = blind(r, weight) & last
    inverse = register(F32(1))
    with when(last, likely=True):
        inverse.value = 1.0 / weight
    scale = inverse.value

    def store(some: Type, i: Value, m: Any, x: Value) -> None:
        x = x * some(scale)
        some[y + i, m] = choose(BIT.like(some)(nothing), 0.0, x)

    with either(first) as (begin, go_on):
        with begin:
            for some, i, m in along(f32, 0, r.e, unroll=2):
                store(some, i, m, some[sums + i])
        with go_on:
            for some, i, m in along(f32, 0, r.e, unroll=2):
                before = some(F32[factor])
                store(some, i, m, fma(some[y + i, m], before, some[sums + i]))


def blind(r: Any, weight: Value) -> Value:
    """Whether a query with this sum of weights sees no key, and gets zeros for that."""
    zeros, _, never_nan = (r.blind == i for i in range(len(BLIND)))
    bad = ~(weight > 0)
    return zeros & (weight == 0) | never_nan & bad


@traced
def clear(start: Value, nbytes: Value) -> None:
    """Write zeros in whole vectors."""
    f32 = F32.vector(tier().lanes)
    for i in over(0, nbytes, f32.size):
        f32[start + i] = 0
