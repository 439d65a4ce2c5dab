"""attention_few: attention of so few queries that keys and values are read where they lie, each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..isa.elements import shuffle
from ..isa.loops import (
    div_rem,
    divide,
    larger,
    lesser,
    loop,
    pieces,
    repeat,
    smaller,
    thread_range,
    variable,
    whole,
)
from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, Vector, emits
from .places import bounds, seen
from .rows import ATTENTION
from .softmax import line_of, make_begin, make_clear, make_finish, make_look, make_rebase, make_weigh


def make(tier: Tier) -> Callable[..., None]:
    """The kernel: all queries that share a head of keys and values go over them together, block after block."""
    fields = reader(ATTENTION)
    begin, look, rebase, weigh = make_begin(tier), make_look(tier), make_rebase(tier), make_weigh(tier)
    finish, clear, score, gather = make_finish(tier), make_clear(tier), _score(tier), _gather(tier)
    lanes = tier.lanes
    BASE, TOTAL, FACTOR = map(line_of, ("base", "total", "factor"))

    def attention(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        scratch = r.scratch + thread * r.scratch_bytes
        scores, sums, state = scratch + r.scores_at, scratch + r.sums_at, scratch + r.state_at
        groups = divide(r.heads, r.share)
        line, out = (r.keys + lanes) * 4, pieces(r.e, lanes) * lanes * 4
        each = pieces(r.rows, lanes) * lanes * 4
        base, total, factor = state + BASE * each, state + TOTAL * each, state + FACTOR * each
        first, end = thread_range(r.batch * groups, thread, threads)
        for unit in range(first, end):
            image, group = div_rem(unit, groups)
            limit, place = bounds(r, image)
            keys, values = r.k + image * r.k_image + group * r.k_head, r.v + image * r.v_image + group * r.v_head
            q = r.q + image * r.q_image + group * r.share * r.q_head
            y = r.y + image * r.y_image + group * r.share * r.y_head
            mask = r.mask + image * r.mask_image + group * r.share * r.mask_head
            near = larger(0, place + r.low)
            stop = smaller(limit, place + r.s - 1 + r.high)
            begin(state, each)
            if near >= stop:
                clear(sums, out)
            key = near
            while key < stop or key == near:
                n = larger(0, smaller(r.keys, stop - key))
                for i in range(r.rows):
                    head, row = div_rem(i, r.s)
                    left, right = seen(r, limit, place + row, key, n)
                    there = mask + head * r.mask_head + row * r.mask_row + (4 * key if r.kind == 1 else key)
                    if n:
                        score(scores + i * line, q + head * r.q_head + row * r.q_row, keys + key * r.k_row, r.k_row, n,
                              r.d, r.scale)  # fmt: skip
                    look(r, scores + i * line, there, left, right, base + 4 * i)
                rebase(state, each)
                begun, ended = key == near, key + n >= stop
                for i in range(r.rows):
                    head, row = div_rem(i, r.s)
                    left, right = seen(r, limit, place + row, key, n)
                    weigh(scores + i * line, left, right, n, base + 4 * i, total + 4 * i)
                    if n:
                        gather(sums, scores + i * line, values + key * r.v_row, r.v_row, n, r.e)
                    finish(r, y + head * r.y_head + row * r.y_row, sums, total + 4 * i, factor + 4 * i, begun, ended)
                key += larger(n, 1)

    return attention


def _score(tier: Tier) -> Any:
    """score(scores, q, k, row, n, d, scale): products of a query with n keys, `row` bytes apart. A vector behind them
    is written, too.
    """
    lanes = tier.lanes

    @emits
    def score(b: Any, scores: Any, q: Any, k: Any, row: Any, n: Any, d: Any, scale: Any) -> None:
        v = Vector(b, tier)
        factor = v.splat(b.bitcast(b.trunc(scale, I32), F32))
        end = whole(b, d, lanes)
        rest = b.sub(d, end)
        mask = v.mask(rest)
        some = b.icmp_signed(">", end, I64(0))

        with loop(b, 0, n, lanes) as i:
            places = [lesser(b, b.add(i, I64(j)), b.sub(n, I64(1))) for j in range(lanes)]
            rows = [b.add(k, b.mul(row, place)) for place in places]

            def add(at: Any, m: Any, sums: list[Any], rows: list[Any] = rows) -> list[Any]:
                offset = b.mul(at, I64(4))
                x = v.load(v.pointer(b.add(q, offset)), m)
                words = (v.load(v.pointer(b.add(address, offset)), m) for address in rows)
                return [v.fma(x, word, total) for word, total in zip(words, sums, strict=True)]

            sums = [v.const(0)] * lanes
            before = b.block
            with b.if_then(some):
                done = repeat(
                    b, b.udiv(end, I64(lanes)), sums, lambda at, state: add(b.mul(at, I64(lanes)), None, state)
                )
                inside = b.block
            sums = _joined(b, v.type, (before, sums), (inside, done))
            before = b.block
            with b.if_then(b.icmp_signed(">", rest, I64(0))):
                done = add(end, mask, sums)
                inside = b.block
            sums = _joined(b, v.type, (before, sums), (inside, done))
            v.store(b.fmul(_totals(b, sums), factor), v.at(v.pointer(scores), i))

    return score


def _joined(b: Any, kind: Any, *sources: tuple[Any, list[Any]]) -> list[Any]:
    """Values that come from one of several blocks."""
    phis = [b.phi(kind) for _ in sources[0][1]]
    for block, values in sources:
        for phi, value in zip(phis, values, strict=True):
            phi.add_incoming(value, block)
    return phis


def _totals(b: Any, vectors: list[Any]) -> Any:
    """The sum of each of as many vectors as they have lanes."""
    n = len(vectors)
    while len(vectors) > 1:
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        halves = [[shuffle(b, x, y, range(odd, 2 * n, 2)) for odd in (0, 1)] for x, y in pairs]
        vectors = [b.fadd(even, odd) for even, odd in halves]
    return vectors[0]


def _gather(tier: Tier) -> Any:
    """gather(sums, weights, v, row, n, e): the sum of n values, `row` bytes apart, each times its weight. Whole vectors
    are written.
    """

    @emits
    def gather(b: Any, sums: Any, weights: Any, start: Any, row: Any, n: Any, e: Any) -> None:
        v = Vector(b, tier)
        at, factors = I64(0), v.pointer(weights)
        for vectors in (4, 2, 1):
            w = Vector(b, tier, vectors * tier.lanes)
            end = b.add(at, whole(b, b.sub(e, at), w.lanes))
            with loop(b, at, end, w.lanes) as i:
                _columns(w, sums, factors, start, row, n, i, None, 4 // vectors)
            at = end
        rest = b.sub(e, at)
        with b.if_then(b.icmp_signed(">", rest, I64(0))):
            _columns(v, sums, factors, start, row, n, at, v.mask(rest), 4)

    return gather


def _columns(
    w: Vector, sums: Any, factors: Any, start: Any, row: Any, n: Any, i: Any, mask: Any, chains: int
) -> None:  # fmt: skip
    """A vector of columns, in so many chains of sums that wait for nothing."""
    b, offset = w.b, w.b.mul(i, I64(4))
    first = b.add(start, offset)

    def term(key: Any, total: Any) -> Any:
        x = w.load(w.pointer(b.add(first, b.mul(key, row))), mask)
        return w.fma(w.splat(b.load(w.at(factors, key))), x, total)

    slots = [variable(b, w.const(0)) for _ in range(chains)]
    full = whole(b, n, chains)
    with loop(b, 0, full, chains) as key:
        for j, slot in enumerate(slots):
            b.store(term(b.add(key, I64(j)), b.load(slot)), slot)
    with loop(b, full, n, 1) as key:
        b.store(term(key, b.load(slots[0])), slots[0])
    total, *others = [b.load(slot) for slot in slots]
    for other in others:
        total = b.fadd(total, other)
    w.store(total, w.pointer(b.add(sums, offset)))
