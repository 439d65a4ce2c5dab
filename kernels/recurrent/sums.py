"""The sums that the gates of some rows begin with: projected inputs, and the state times a panel of weights."""

from __future__ import annotations

from typing import Any

from ..gemm.by_height import by_height
from ..isa.tiers import Tier
from ..lang import F32, I64, Type, Value, fma, repeat, room, traced
from .rows import INFO, UNROLL


def heights(tier: Tier, gates: int) -> tuple[int, ...]:
    """Rows that are multiplied by a panel of so many gates at once, descending."""
    spare = 1 if tier.fma else 2
    return tuple(rows for rows in (4, 2, 1) if (rows + 1) * gates + spare <= tier.registers)


def make_sums(tier: Tier, gates: int, projected: int) -> Any:
    """sums(height, states, row_bytes, info, column, panel, lines, to) for a panel of `gates` vectors.

    `height` rows of lines / UNROLL * UNROLL f32 at `states`, row_bytes apart like their INFO; the first `projected`
    gates begin `column` bytes into the projected input, the others with the bias in the panel's head. To vectors
    [height, gates] at `to`.
    """
    f32 = F32.vector(tier.lanes)
    line = gates * f32.size

    @traced
    def sums(
        height: Value,
        states: Value,
        row_bytes: Value,
        info: Value,
        column: Value,
        panel: Value,
        lines: Value,
        to: Value,
    ) -> None:
        def body(rows: int) -> None:
            apart = chains(tier, rows * gates)
            begin = []
            for r in range(rows):
                begin += start(f32, info + row_bytes * r, column, panel, gates, projected)
            begin += [f32(0)] * (rows * gates * (apart - 1))
            for i, x in enumerate(product(rows, states, row_bytes, panel + line, lines, begin)):
                f32[F32.at(to) + i * f32.lanes] = x

        by_height(height, heights(tier, gates), body)

    def product(
        rows: int, states: Value, row_bytes: Value, panel: Value, lines: Value, begin: list[Value]
    ) -> list[Value]:
        """The sums [rows, gates]; line k adds to those of chain k modulo their number, which are summed at the end."""
        each = rows * gates
        apart = len(begin) // each

        def some(_: Value, state: list[Value]) -> list[Value]:
            at, weights, *sums = state
            for k in range(UNROLL):
                own = k % apart * each
                w = [f32[F32.at(weights) + (k * gates + g) * f32.lanes] for g in range(gates)]
                for r in range(rows):
                    x = f32(F32.at(at + row_bytes * r)[k])
                    for g in range(gates):
                        sums[own + r * gates + g] = fma(x, w[g], sums[own + r * gates + g])
            return [at + 4 * UNROLL, weights + UNROLL * line, *sums]

        _, _, *sums = repeat(turns(lines), [states, panel, *begin], some)
        return together(sums, each)

    return sums


def turns(lines: Value) -> Value:
    """How many times UNROLL lines, or words, are in a multiple of it."""
    return (lines.unsigned >> UNROLL.bit_length() - 1).signed


def together(sums: list[Value], count: int) -> list[Value]:
    """The sums of all chains, of `count` each."""
    while len(sums) > count:
        half = len(sums) // 2
        sums = [x + y for x, y in zip(sums[:half], sums[half:], strict=True)]
    return sums


def start(f32: Type, info: Value, column: Value, panel: Value, gates: int, projected: int) -> list[Value]:
    """What a row's sums begin with."""
    at = I64.at(info)[INFO.at("projected")] + column
    return [f32[F32.at(at if g < projected else panel) + g * f32.lanes] for g in range(gates)]


def chains(tier: Tier, sums: int) -> int:
    """How many sums each is split into, so that additions need not wait for one another."""
    most = 16 if tier.registers >= 32 else 12
    return max(count for count in (1, 2, UNROLL) if count == 1 or count * sums <= most)


def make_room(tier: Tier, gates: int) -> Any:
    """room(): the address of memory for what `sums` gives."""
    f32 = F32.vector(tier.lanes)

    @traced
    def found() -> Value:
        return room(f32, gates * heights(tier, gates)[0]).address

    return found
