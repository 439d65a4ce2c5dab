"""Online softmax: scores of a block of queries become weights, block of keys after block of keys, and scale the sums of
values.

Weights are relative to the largest score so far: where a block has a larger one, earlier sums are scaled down. They are
halves of exponentials, and so are their sums.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..isa.functions import exp, half_exp, tanh
from ..lang import (
    Value,
    along,
    choose,
    either,
    fma,
    fold,
    larger,
    over,
    register,
    shuffle,
    smaller,
    tier,
    traced,
    when,
    whole,
)  # fmt: skip
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


def spans(left: Any, right: Value, unroll: int) -> Iterator[tuple[Type, Value, Value | None]]:
    """(f32, i, mask): vectors that together span left..right: blocks of `unroll` of them, single ones, and one under a
    mask. `left` is a multiple of the lanes but for windows, where all have masks.
    """
    f32 = F32.vector(tier().lanes)
    start = whole(left, f32.lanes)
    end = choose(start == left, whole(right, f32.lanes), start)
    first = start + whole(end - start, unroll * f32.lanes)
    for i in over(start, first, unroll * f32.lanes):
        yield f32.times(unroll), i, None
    for i in over(first, end, f32.lanes):
        yield f32, i, None
    for i in over(end, right, f32.lanes):
        yield f32, i, f32.below(right - i) & ~f32.below(left - i)


@traced
def look(r: Any, scores: Value, mask: Value, left: Any, right: Any, most: Value) -> None:
    """Apply `cap` and the mask to the scores left..right of a query; a vector with the largest is stored at `most`.
    `mask`: address for the first score of the row. Writes whole vectors.
    """
    f32 = F32.vector(tier().lanes)
    x = F32.at(scores)
    _cap(f32, x, left, right, r.cap.to(I32).bits(F32))

    def largest(term: Term) -> None:
        found = register(f32(-math.inf))
        for some, i, m in spans(left, right, 4):
            y = term(some, i, m)
            y = y if m is None else choose(m, y, -math.inf)
            found.value = larger(found.value, fold(larger, y, f32.lanes))
        f32[most] = found.value

    by_mask(r, x, F32.at(mask), U8.at(mask), largest)


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


def _cap(f32: Type, x: Value, left: Any, right: Value, cap: Value) -> None:
    with when(abs(cap) > 0, likely=False):
        limit = f32(cap)
        for i in over(whole(left, f32.lanes), right, f32.lanes):
            f32[x + i] = limit * tanh(f32[x + i] / limit)


def _combined_rows(r: Any, parts: Value, row: Value, first: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """What `combine` makes of the vector of each query, `row` bytes apart, from query `first` on; a lane each."""
    f32, last = F32.vector(tier().lanes), r.rows - 1
    return combined(combine, [f32[parts + row * smaller(first + n, last)] for n in range(f32.lanes)])


@traced
def rebase(r: Any, s: Any) -> None:
    """Update the largest scores by a block's, and set the factors of earlier sums; s: the thread's Scratch."""
    f32 = F32.vector(tier().lanes)
    for i in over(0, r.rows, f32.lanes):
        at = {name: f32.at(s.state + (i * 4 + s.line * STATE.at(name))) for name in STATE}
        before, found = at["top"][0], _combined_rows(r, s.parts, s.score_row, i, larger)
        top = larger(before, found)
        base = choose(top == -math.inf, 0.0, top)
        at["top"][0] = top
        at["base"][0] = base
        at["factor"][0] = exp(before - base)


@traced
def weigh(scores: Value, left: Any, right: Any, n: Value, base: Value, sum_: Value) -> None:
    """Make weights of the n scores of a query, 0 outside of left..right; a vector of their sums is stored at `sum_`. In
    whole vectors.
    """
    f32 = F32.vector(tier().lanes)
    row, least = F32.at(scores), F32[base]
    found = register(f32(0))
    for i in over(0, whole(left, f32.lanes), f32.lanes):
        f32[row + i] = 0
    for some, i, m in spans(left, right, 2):
        y = half_exp(some[row + i] - some(least), relative=False)
        y = y if m is None else choose(m, y, 0)
        some[row + i] = y
        found.value = found.value + fold(operator.add, y, f32.lanes)
    for i in over(whole(right + (f32.lanes - 1), f32.lanes), n, f32.lanes):
        f32[row + i] = 0
    f32[sum_] = found.value


@traced
def add_up(r: Any, s: Any) -> None:
    """Add a block's sums of weights to those before it; s: the thread's Scratch."""
    f32 = F32.vector(tier().lanes)
    for i in over(0, r.rows, f32.lanes):
        total, factor = (f32.at(at + i * 4) for at in (s.total, s.factor))
        total[0] = fma(total[0], factor[0], _combined_rows(r, s.parts, s.score_row, i, operator.add))


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
