"""attention_few: attention of few queries, without packing: keys and values are read in place, each once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import F32, I32, I64, Type, Value, over, registers, repeat, share, tier, traced, when, whole
from ..lang.instructions import div_rem, divide, fma, larger, smaller
from .operands import head_of_keys, query_row, scratch_of
from .rows import ATTENTION
from .softmax import add_up, begin, clear, combined, finish, look, rebase, weigh
from .visible_keys import at_key, bounds, seen, span


def make(tier: Tier) -> Callable[..., None]:
    """The kernel: all queries that share a head of keys and values go through them together, block after block."""
    lanes = tier.lanes

    def attention(args: int, thread: int, threads: int) -> None:
        r = fields(args, ATTENTION)
        s = scratch_of(r, thread, lanes)
        groups = divide(r.heads, r.share)
        first, end = share(r.batch * groups, thread, threads)
        for unit in range(first, end):
            image, group = div_rem(unit, groups)
            _attend(r, s, image, group)

    return attention


def _attend(r: Any, s: Any, image: int, group: int) -> None:
    """All queries of the heads that share a head of keys and values; s: the thread's Scratch. Query i of them is number
    i modulo r.s of its head.
    """
    limit, place = bounds(r, image)
    k, v = head_of_keys(r, image, group)
    at = query_row(r, image, group * r.share, 0)
    first, stop = span(r, limit, place, r.s)
    begin(s.state, s.line)
    if first >= stop:
        clear(s.sums, s.sum_row)
    key = first
    while key < stop or key == first:
        n = larger(0, smaller(r.keys, stop - key))
        for i in range(r.rows):
            head, row = div_rem(i, r.s)
            scores = s.scores + i * s.score_row
            left, right = seen(r, limit, place + row, key, n)
            mask = at_key(r, at.mask + head * r.mask_head + row * r.mask_row, key)
            if n:
                query = at.q + head * r.q_head + row * r.q_row
                _score(scores, query, k + key * r.k_row, r.k_row, n, r.d, r.scale)
            look(r, scores, mask, left, right, s.parts + i * s.score_row)
        rebase(r, s)
        for i in range(r.rows):
            _, row = div_rem(i, r.s)
            left, right = seen(r, limit, place + row, key, n)
            weigh(s.scores + i * s.score_row, left, right, n, s.base + 4 * i, s.parts + i * s.score_row)
        add_up(r, s)
        begun, ended = key == first, key + n >= stop
        for i in range(r.rows):
            head, row = div_rem(i, r.s)
            if n:
                _gather(s.sums, s.scores + i * s.score_row, v + key * r.v_row, r.v_row, n, r.e)
            y = at.y + head * r.y_head + row * r.y_row
            finish(r, y, s.sums, s.total + 4 * i, s.factor + 4 * i, begun, ended)
        key += larger(n, 1)


@traced
def _score(scores: Value, q: Value, k: Value, row: Value, n: Value, d: Value, scale: Value) -> None:
    """Scaled products of a query with n keys, `row` bytes apart. Writes whole vectors."""
    f32 = F32.vector(tier().lanes)
    factor = f32(scale.to(I32).bits(F32))
    end = whole(d, f32.lanes)
    rest = d - end
    mask, some = f32.below(rest), end > 0

    def add(rows: list[Value], at: Value, mask: Value | None, sums: list[Value]) -> list[Value]:
        offset = at * 4
        x = f32[q + offset, mask]
        return [fma(x, f32[address + offset, mask], sum_) for address, sum_ in zip(rows, sums, strict=True)]

    def vectors(rows: list[Value]) -> list[Value]:
        """For each key a vector of sums of products."""
        sums = registers([f32(0)] * f32.lanes)
        with when(some):
            zeros = [f32(0)] * f32.lanes
            step = partial(add, rows)
            count = divide(end, f32.lanes)
            sums.set(repeat(count, zeros, lambda at, state: step(at * f32.lanes, None, state)))
        with when(rest > 0):
            sums.set(add(rows, end, mask, sums.values()))
        return sums.values()

    for i in over(0, n, f32.lanes):
        places = [smaller(i + j, n - 1) for j in range(f32.lanes)]
        products = combined(operator.add, vectors([k + row * place for place in places]))
        f32[F32.at(scores) + i] = products * factor


@traced
def _gather(sums: Value, weights: Value, start: Value, row: Value, n: Value, e: Value) -> None:
    """The weighted sum of n values, `row` bytes apart. Writes whole vectors."""
    f32 = F32.vector(tier().lanes)
    factors = F32.at(weights)

    def columns(some: Type, i: Value, mask: Value | None, chains: int) -> None:
        """A vector of columns, in `chains` partial sums to hide the latency of additions."""
        offset = i * 4
        first = start + offset

        def term(key: Value, sum_: Value) -> Value:
            x = some[first + key * row, mask]
            return fma(some(factors[key]), x, sum_)

        chain = registers([some(0)] * chains)
        full = whole(n, chains)
        for key in over(0, full, chains):
            for j in range(chains):
                chain[j] = term(key + j, chain[j])
        for key in over(full, n):
            chain[0] = term(key, chain[0])
        some[sums + offset] = reduce(operator.add, chain.values())

    at: Any = I64(0)
    for vectors in (4, 2, 1):
        some = f32.times(vectors)
        end = at + whole(e - at, some.lanes)
        for i in over(at, end, some.lanes):
            columns(some, i, None, 4 // vectors)
        at = end
    rest = e - at
    with when(rest > 0):
        columns(f32, at, f32.below(rest), 4)
