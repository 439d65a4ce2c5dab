"""Scores of a block of queries as weights, block of keys after block of keys; and what becomes of products with values.

Weights are relative to the largest score so far: where a block has a larger one, what was summed before shrinks. They
are halves of exponentials, as their sums are.
"""

from __future__ import annotations

import math
from typing import Any

from ..isa import functions as f
from ..isa.elements import load
from ..isa.loops import each, loop, total, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I32, I64, Vector, emits
from .rows import BLIND, MASKS, STATE


def state_bytes(tier: Tier, rows: int) -> int:
    """Bytes of a line of numbers, one for each of so many queries."""
    return 4 * -(-rows // tier.lanes) * tier.lanes


def line_of(name: str) -> int:
    """Which line of a block's state has this number of each query."""
    return STATE.at(name)


def make_begin(tier: Tier) -> Any:
    """begin(state, line): no score was seen; a line is `line` bytes."""

    @emits
    def begin(b: Any, state: Any, line: Any) -> None:
        v = Vector(b, tier)
        for name, value in (("top", -math.inf), ("total", 0.0)):
            with loop(b, 0, line, 4 * tier.lanes) as i:
                v.store(v.const(value), v.pointer(b.add(state, b.add(i, b.mul(line, I64(line_of(name)))))))

    return begin


def make_look(tier: Tier) -> Any:
    """look(record, scores, mask, left, right, base): the scores left..right of a query as `cap` and the mask make them;
    the largest goes to `base`. `mask` is the address for the first of the row. A vector behind `right` is written, too.
    """

    @emits
    def look(b: Any, r: Any, scores: Any, mask: Any, left: Any, right: Any, base: Any) -> None:
        v = Vector(b, tier)
        x, count = v.at(v.pointer(scores), left), b.sub(right, left)
        _cap(v, x, count, b.bitcast(b.trunc(r.cap, I32), F32))
        bias = v.at(v.pointer(mask), left)
        seen = b.gep(b.inttoptr(mask, I8.as_pointer()), [left])

        def add(w: Vector, i: Any, m: Any) -> Any:
            y = b.fadd(w.load(w.at(x, i)), w.load(w.at(bias, i), m))
            w.store(y, w.at(x, i))
            return y

        def hide(w: Vector, i: Any, m: Any) -> Any:
            there = b.fcmp_ordered("!=", load(w, "bool", b.gep(seen, [i])), w.const(0))
            y = b.select(there, w.load(w.at(x, i)), w.const(-math.inf))
            w.store(y, w.at(x, i))
            return y

        bodies = {"none": lambda w, i, m: w.load(w.at(x, i)), "f32": add, "bool": hide}
        for name, body in bodies.items():
            with b.if_then(b.icmp_signed("==", r.kind, I64(MASKS.index(name)))):
                b.store(total(v, count, -math.inf, _larger, body), v.pointer(base))

    return look


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


def make_rebase(tier: Tier) -> Any:
    """rebase(state, line): the largest scores of a block join those before; sums shrink as these grow."""

    @emits
    def rebase(b: Any, state: Any, line: Any) -> None:
        v = Vector(b, tier)
        with loop(b, 0, line, 4 * tier.lanes) as i:
            places = {name: v.pointer(b.add(state, b.add(i, b.mul(line, I64(line_of(name)))))) for name in STATE}
            before, found = v.load(places["top"]), v.load(places["base"])
            top = b.select(b.fcmp_ordered(">", before, found), before, found)
            base = b.select(b.fcmp_ordered("==", top, v.const(-math.inf)), v.const(0), top)
            factor = f.exp(v, b.fsub(before, base))
            v.store(top, places["top"])
            v.store(base, places["base"])
            v.store(factor, places["factor"])
            v.store(b.fmul(v.load(places["total"]), factor), places["total"])

    return rebase


def make_weigh(tier: Tier) -> Any:
    """weigh(scores, left, right, n, base, total): the n scores of a query become weights, those that are not in
    left..right 0; they are added to `total`. A vector behind them is written, too.
    """

    @emits
    def weigh(b: Any, scores: Any, left: Any, right: Any, n: Any, base: Any, total_: Any) -> None:
        v = Vector(b, tier)
        row, least = v.pointer(scores), b.load(v.pointer(base))
        x, at = v.at(row, left), v.pointer(total_)

        def power(w: Vector, i: Any, m: Any) -> Any:
            y = f.half_exp(w, b.fsub(w.load(w.at(x, i)), w.splat(least)))
            w.store(y, w.at(x, i))
            return y

        sum_ = total(v, b.sub(right, left), 0, lambda w, p, q: b.fadd(p, q), power)
        b.store(b.fadd(b.load(at), sum_), at)
        each(v, I64(0), left, lambda w, i, m: w.store(w.const(0), w.at(row, i), m), unroll=1)
        each(v, right, n, lambda w, i, m: w.store(w.const(0), w.at(row, i)), unroll=1)

    return weigh


def make_finish(tier: Tier) -> Any:
    """finish(record, y, sums, total, factor, first, last): a block's sums of values join a row of the result, which the
    first block begins and the last divides by the sum of weights.
    """

    @emits
    def finish(b: Any, r: Any, y: Any, sums: Any, total_: Any, factor: Any, first: Any, last: Any) -> None:
        v = Vector(b, tier)
        y, sums = v.pointer(y), v.pointer(sums)
        weight = b.load(v.pointer(total_))
        blind = [b.icmp_signed("==", r.blind, I64(i)) for i in range(len(BLIND))]
        ended = b.icmp_signed("!=", last, I64(0))
        bad = b.not_(b.fcmp_ordered(">", weight, F32(0)))
        nothing = b.or_(b.and_(blind[0], b.fcmp_ordered("==", weight, F32(0))), b.and_(blind[2], bad))
        nothing = b.and_(nothing, ended)
        scale = variable(b, F32(1))
        with b.if_then(ended, likely=True):
            b.store(b.fdiv(F32(1), weight), scale)
        scale = b.load(scale)

        def store(w: Vector, i: Any, m: Any, x: Any) -> None:
            x = b.fmul(x, w.splat(scale))
            w.store(b.select(w.splat(nothing), w.const(0), x), w.at(y, i), m)

        def begin(w: Vector, i: Any, m: Any) -> None:
            store(w, i, m, w.load(w.at(sums, i)))

        def go_on(w: Vector, i: Any, m: Any) -> None:
            before = w.splat(b.load(v.pointer(factor)))
            store(w, i, m, w.fma(w.load(w.at(y, i), m), before, w.load(w.at(sums, i))))

        with b.if_else(b.icmp_signed("!=", first, I64(0))) as (yes, no):
            with yes:
                each(v, I64(0), r.e, begin, unroll=2)
            with no:
                each(v, I64(0), r.e, go_on, unroll=2)

    return finish


def make_clear(tier: Tier) -> Any:
    """clear(start, nbytes): zeros, whole vectors."""

    @emits
    def clear(b: Any, start: Any, nbytes: Any) -> None:
        v = Vector(b, tier)
        with loop(b, 0, nbytes, 4 * tier.lanes) as i:
            v.store(v.const(0), v.pointer(b.add(start, i)))

    return clear
