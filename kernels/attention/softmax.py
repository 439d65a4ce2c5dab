"""Scores of one query as weights, block of keys after block of keys; and what becomes of their products with values.

Weights are relative to the largest score so far: where a block has a larger one, what was summed before shrinks.
"""

from __future__ import annotations

import math
from typing import Any

from ..isa import functions as f
from ..isa.elements import load
from ..isa.loops import each, total
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I32, I64, Vector, emits
from .rows import BLIND, MASKS


def make_begin() -> Any:
    """begin(state): no score was seen."""

    @emits
    def begin(b: Any, state: Any) -> None:
        at = b.inttoptr(state, F32.as_pointer())
        for i, value in enumerate((-math.inf, 0.0, 0.0)):
            b.store(F32(value), b.gep(at, [I64(i)]))

    return begin


def make_weigh(tier: Tier) -> Any:
    """weigh(record, scores, mask, left, right, n, state): the n scores of a query become weights, those that are not
    in left..right 0; `mask` is the address for the first of the n. A vector behind them is written, too.
    """

    @emits
    def weigh(b: Any, r: Any, scores: Any, mask: Any, left: Any, right: Any, n: Any, state: Any) -> None:
        v = Vector(b, tier)
        row, at = v.pointer(scores), v.pointer(state)
        x, count = v.at(row, left), b.sub(right, left)
        _cap(v, x, count, b.bitcast(b.trunc(r.cap, I32), F32))
        _masked(v, x, count, r.kind, mask, left)
        before = b.load(at)
        found = total(v, count, -math.inf, _larger, lambda w, i, m: w.load(w.at(x, i)))
        top = b.select(b.fcmp_ordered(">", before, found), before, found)
        base = b.select(b.fcmp_ordered("==", top, F32(-math.inf)), F32(0), top)

        def power(w: Vector, i: Any, m: Any) -> Any:
            y = f.exp(w, b.fsub(w.load(w.at(x, i)), w.splat(base)))
            w.store(y, w.at(x, i))
            return y

        sum_ = total(v, count, 0, lambda w, p, q: b.fadd(p, q), power)
        one = Vector(b, tier, 1)
        factor = b.extract_element(f.exp(one, one.splat(b.fsub(before, base))), I32(0))
        b.store(top, at)
        b.store(b.fadd(b.fmul(b.load(v.at(at, 1)), factor), sum_), v.at(at, 1))
        b.store(factor, v.at(at, 2))
        each(v, I64(0), left, lambda w, i, m: w.store(w.const(0), w.at(row, i), m), unroll=1)
        each(v, right, n, lambda w, i, m: w.store(w.const(0), w.at(row, i)), unroll=1)

    return weigh


def _larger(v: Vector, a: Any, b: Any) -> Any:
    """The larger one, b when either is NaN: the exponentials will show the NaN."""
    return v.b.select(v.b.fcmp_ordered(">", a, b), a, b)


def _cap(v: Vector, x: Any, count: Any, cap: Any) -> None:
    b = v.b

    def body(w: Vector, i: Any, m: Any) -> None:
        limit = w.splat(cap)
        w.store(b.fmul(limit, f.tanh(w, b.fdiv(w.load(w.at(x, i)), limit))), w.at(x, i))

    with b.if_then(b.fcmp_ordered("!=", cap, F32(0)), likely=False):
        each(v, I64(0), count, body, unroll=1)


def _masked(v: Vector, x: Any, count: Any, kind: Any, mask: Any, left: Any) -> None:
    """Add the mask to scores, or make those -inf that it hides."""
    b = v.b
    bias = v.at(v.pointer(mask), left)
    seen = b.gep(b.inttoptr(mask, I8.as_pointer()), [left])

    def add(w: Vector, i: Any, m: Any) -> None:
        w.store(b.fadd(w.load(w.at(x, i)), w.load(w.at(bias, i), m)), w.at(x, i))

    def hide(w: Vector, i: Any, m: Any) -> None:
        there = b.fcmp_ordered("!=", load(w, "bool", b.gep(seen, [i])), w.const(0))
        w.store(b.select(there, w.load(w.at(x, i)), w.const(-math.inf)), w.at(x, i))

    for name, body in (("f32", add), ("bool", hide)):
        with b.if_then(b.icmp_signed("==", kind, I64(MASKS.index(name)))):
            each(v, I64(0), count, body)


def make_finish(tier: Tier) -> Any:
    """finish(record, y, sums, state, first, last): a block's sums of values join a row of the result, which the first
    block begins and the last divides by the sum of weights.
    """

    @emits
    def finish(b: Any, r: Any, y: Any, sums: Any, state: Any, first: Any, last: Any) -> None:
        v = Vector(b, tier)
        y, sums, at = v.pointer(y), v.pointer(sums), v.pointer(state)
        total_, factor = b.load(v.at(at, 1)), b.load(v.at(at, 2))
        blind = [b.icmp_signed("==", r.blind, I64(i)) for i in range(len(BLIND))]
        ended = b.icmp_signed("!=", last, I64(0))
        bad = b.not_(b.fcmp_ordered(">", total_, F32(0)))
        nothing = b.or_(b.and_(blind[0], b.fcmp_ordered("==", total_, F32(0))), b.and_(blind[2], bad))
        nothing = b.and_(nothing, ended)
        scale = b.select(ended, b.fdiv(F32(1), total_), F32(1))

        def store(w: Vector, i: Any, m: Any, x: Any) -> None:
            x = b.fmul(x, w.splat(scale))
            w.store(b.select(w.splat(nothing), w.const(0), x), w.at(y, i), m)

        def begin(w: Vector, i: Any, m: Any) -> None:
            store(w, i, m, w.load(w.at(sums, i)))

        def go_on(w: Vector, i: Any, m: Any) -> None:
            store(w, i, m, w.fma(w.load(w.at(y, i), m), w.splat(factor), w.load(w.at(sums, i))))

        with b.if_else(b.icmp_signed("!=", first, I64(0))) as (yes, no):
            with yes:
                each(v, I64(0), r.e, begin, unroll=2)
            with no:
                each(v, I64(0), r.e, go_on, unroll=2)

    return finish
