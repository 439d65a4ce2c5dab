"""The sums of the gates of some rows: projected inputs plus the state times a panel of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..gemm.by_height import by_height
from ..isa.tiers import Tier
from ..lang import BF16, F32, I32, I64, Type, Value, fma, of_chains, over, repeat, room, tier, traced
from .rows import INFO, UNROLL

GROUP = 4
"""Rows, or vectors of hidden units of a single row, of which cells are computed one after another: each waits for its
own results, and the CPU works at several meanwhile. With 32 registers, and half as many cells, the latter gains
nothing.
"""
StateRows = tuple[Value, Value, Value]


def heights(tier: Tier, gates: int) -> tuple[int, ...]:
    """Heights of tiles of rows for a panel of so many gates, descending."""
    spare = 1 if tier.fma else 2
    return tuple(rows for rows in (GROUP, 2, 1) if (rows + 1) * gates + spare <= tier.registers)


def make_sums(tier: Tier, gates: int, projected: int, element: str) -> Any:
    """sums(height, (states, info, row_bytes), column, panel, lines, to) for a panel of `gates` vectors.

    states, info: addresses of the first row's `lines` words, an f32 or two bf16 as `element` says, and of its INFO;
    `height` rows follow one another by row_bytes. The first `projected` gates begin with the projected input, `column`
    bytes into it, the others with the bias in the panel's head. to: address of the result, vectors [height, gates].
    """
    f32, word = F32.vector(tier.lanes), I32 if element == "bf16" else F32
    words, line = word.vector(tier.lanes), gates * f32.size

    def added(total: Value, x: Value, w: Value) -> Value:
        return tier.isa.dot_pairs(total, x, w) if element == "bf16" else fma(x, w, total)

    @traced
    def sums(height: Value, first: StateRows, column: Value, panel: Value, lines: Value, to: Value) -> None:
        states, info, row_bytes = first

        def body(rows: int) -> None:
            partial = chains(tier, rows * gates)
            begin = []
            for r in range(rows):
                begin += start(f32, info + row_bytes * r, column, panel, gates, projected)
            begin += [f32(0)] * (rows * gates * (partial - 1))

            def add(at: Value, weights: Value, k: int, sums: list[Value], first: int) -> None:
                w = [words[word.at(weights) + (k * gates + g) * words.lanes] for g in range(gates)]
                for r in range(rows):
                    x = words(word.at(at + row_bytes * r)[k])
                    for g in range(gates):
                        i = first + r * gates + g
                        sums[i] = added(sums[i], x, w[g])

            for i, x in enumerate(chained(lines, (states, panel + line), line, begin, partial, add)):
                f32[F32.at(to) + i * f32.lanes] = x

        by_height(height, heights(tier, gates), body)

    return sums


def chained(
    lines: Value, start: tuple[Value, Value], line: int, begin: list[Value], partial: int, add: Callable[..., None]
) -> list[Value]:
    """The sums of so many lines of weights, `line` bytes each, from `start` (words of the states, weights) on; line k
    goes to partial sums k modulo `partial`, which begin one group behind the other.

    add(words, weights, k, sums, first): add the products of the k-th line to sums from number `first` on.
    """
    each = len(begin) // partial

    def some(_: Value, state: list[Value]) -> list[Value]:
        at, weights, *sums = state
        for k in range(UNROLL):
            add(at, weights, k, sums, k % partial * each)
        return [at + 4 * UNROLL, weights + UNROLL * line, *sums]

    turns = (lines.unsigned >> UNROLL.bit_length() - 1).signed
    _, _, *sums = repeat(turns, [*start, *begin], some)
    return of_chains(sums, each)


def start(f32: Type, info: Value, column: Value, panel: Value, gates: int, projected: int) -> list[Value]:
    """The initial vectors of a row's sums: projected input, or bias."""
    at = I64.at(info)[INFO.at("projected")] + column
    return [f32[F32.at(at if g < projected else panel) + g * f32.lanes] for g in range(gates)]


def chains(tier: Tier, sums: int) -> int:
    """Partial sums of each of `sums` sums, to hide the latency of additions."""
    most = 16 if tier.registers >= 32 else 12
    return max(count for count in (1, 2, UNROLL) if count == 1 or count * sums <= most)


@traced
def round_to_bf16(state: Value, to: Value, _: Value, hidden: Value) -> None:
    """f32 as bf16, in whole vectors, elsewhere or in their place."""
    f32 = F32.vector(tier().lanes)
    bf16 = BF16.like(f32)
    for i in over(0, hidden, f32.lanes):
        bf16[to + 2 * i] = f32[state + 4 * i].to(BF16)


@traced
def result_room(gates: int) -> Value:
    """The address of a buffer for the result of `sums`."""
    f32 = F32.vector(tier().lanes)
    return room(f32, gates * GROUP).address
