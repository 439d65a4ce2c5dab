"""Softmax for products of bf16: weights replace scores, as bf16.

As in softmax.py, but rows leave vectors of their largest numbers and of their sums, which are combined for 16 rows at a
time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ..isa.functions import approximate_exp2, tanh
from ..lang import BIT, F32, I32, U8, U16, Value, choose, either, fma, larger, over, register, tier, traced, when, whole
from .pick_attention import LINE, PANEL
from .rows import MASKS, STATE
from .softmax import Term, blind, by_mask, combined


def _whole_then_some(left: Value, right: Value, step: int) -> Iterator[tuple[Value, list[Value] | None]]:
    """(i, masks): vectors that together span left..right, `step` numbers from i on; those that lie within it have no
    masks. `left` is a multiple of `step` but for windows, where all have them.
    """
    start = whole(left, step)
    end = choose(start == left, whole(right, step), start)
    for i in over(start, end, step):
        yield i, None
    kind = F32.vector(tier().lanes)
    for i in over(end, right, step):
        yield i, [kind.below(right - (i + n)) & ~kind.below(left - (i + n)) for n in range(0, step, kind.lanes)]


def _is_capped(r: Any) -> Value:
    return abs(r.cap.to(I32).bits(F32)) > 0


def _factor(r: Any) -> Value:
    """The factor from products, or capped scores, to scores."""
    return choose(_is_capped(r), 1.0, abs(r.scale.to(I32).bits(F32)))


def _left(r: Any) -> Value:
    """The factor from the numbers that `look` stores, which with a mask are scores, to exponents of 2. It is applied to
    differences: the rounding errors of large products would be large exponents, and the least f32 of a mask be -inf.
    """
    return choose(r.kind == MASKS.index("none"), _factor(r), 1.0) * (1 / math.log(2))


@traced
def look(r: Any, scores: Value, mask: Value, left: Any, right: Any, most: Value) -> None:
    """Apply `cap` and the mask to the scores left..right of a query; a vector with the largest is stored at `most`.
    `mask`: address for the first score of the row. Writes whole vectors.
    """
    f32 = F32.vector(tier().lanes)
    _cap(r, scores, left, right)

    def largest(term: Term) -> None:
        found = register(f32(-math.inf))
        for i, masks in _whole_then_some(left, right, tier().lanes):
            y = term(f32, i, masks and masks[0])
            found.value = larger(found.value, choose(masks[0], y, -math.inf) if masks else y)
        f32[most] = found.value

    by_mask(r, F32.at(scores), F32.at(mask), U8.at(mask), largest, factor=f32(_factor(r)))


def _cap(r: Any, scores: Value, left: Value, right: Value) -> None:
    """Scores in place of products, where they are capped."""
    f32, x = F32.vector(tier().lanes), F32.at(scores)
    with when(_is_capped(r), likely=False):
        cap, scale = f32(r.cap.to(I32).bits(F32)), f32(abs(r.scale.to(I32).bits(F32)))
        for i in over(whole(left, f32.lanes), right, f32.lanes):
            f32[x + i] = cap * tanh(f32[x + i] * scale / cap)


@traced
def rebase(r: Any, state: Value, line: Value, most: Value) -> None:
    """Update the largest scores by those of a block, and set the factors of earlier sums."""
    f32 = F32.vector(tier().lanes)
    for i in over(0, line, f32.size):
        at = {name: F32.at(state + (i + line * STATE.at(name))) for name in STATE}
        found = combined(larger, [f32[most + (i * tier().lanes + n * LINE)] for n in range(tier().lanes)])
        before = f32[at["top"]]
        top = larger(before, found)
        base = choose(top == -math.inf, 0.0, top)
        f32[at["top"]] = top
        f32[at["base"]] = base
        f32[at["factor"]] = choose(before == -math.inf, 0.0, approximate_exp2((before - base) * _left(r)))


@traced
def weigh(r: Any, scores: Value, left: Any, right: Any, n: Value, base: Value, sum_: Value) -> None:
    """The n scores of a query become weights in their place, whole lines of bf16, 0 outside of left..right; a vector of
    their sums is stored at `sum_`.
    """
    f32, u16 = F32.vector(tier().lanes), U16.vector(PANEL)
    factor, least = f32(_left(r)), f32(F32[base])
    total = register(f32(0.0))
    for i in over(0, whole(left, PANEL), PANEL):
        u16[scores + 2 * i] = 0
    for i, masks in _whole_then_some(left, right, PANEL):
        both = [approximate_exp2((f32[F32.at(scores) + (i + at)] - least) * factor) for at in (0, tier().lanes)]
        if masks:
            both = [choose(m, x, 0.0) for m, x in zip(masks, both, strict=True)]
        total.value = total.value + (both[0] + both[1])
        u16[scores + 2 * i] = tier().isa.to_bf16(*both)
    for i in over(whole(right + (PANEL - 1), PANEL), n, PANEL):
        u16[scores + 2 * i] = 0
    f32[sum_] = total.value


@traced
def add_up(state: Value, line: Value, sums: Value) -> None:
    """Add a block's sums of weights to those before it."""
    f32 = F32.vector(tier().lanes)
    for i in over(0, line, f32.size):
        total, factor = (F32.at(state + (i + line * STATE.at(name))) for name in ("total", "factor"))
        found = combined(lambda x, y: x + y, [f32[sums + (i * tier().lanes + n * LINE)] for n in range(tier().lanes)])
        f32[total] = fma(f32[total], f32[factor], found)


@traced
def rescale(sums: Value, nbytes: Value, factor: Value) -> None:
    """Multiply a row of sums of values by a factor."""
    f32 = F32.vector(tier().lanes)
    by = f32(F32[factor])
    for i in over(0, nbytes, f32.size):
        f32[sums + i] = f32[sums + i] * by


@traced
def finish(r: Any, y: Value, sums: Value, total: Value) -> None:
    """Write a row of the result: the sums of values, divided by the sum of weights."""
    f32, u16 = F32.vector(tier().lanes), U16.vector(PANEL)
    weight = F32[total]
    inverse, nothing = f32(1.0 / weight), BIT.like(f32)(blind(r, weight))

    def divided(at: Value) -> Value:
        return choose(nothing, 0.0, f32[sums + at] * inverse)

    def halves(column: Value) -> None:
        at, rest = column * 4, r.e - column
        u16[y + column * 2, u16.below(rest)] = tier().isa.to_bf16(divided(at), divided(at + LINE))

    def words(column: Value) -> None:
        for n in (0, tier().lanes):
            at = (column + n) * 4
            f32[y + at, f32.below(r.e - (column + n))] = divided(at)

    store: Callable[[Value], None]
    with either(r.y_item == 2) as (narrow, wide):
        for way, store in ((narrow, halves), (wide, words)):
            with way:
                for column in over(0, r.e, PANEL):
                    store(column)
