"""The sums that the gates of some rows begin with: projected inputs, and the state times a panel of weights."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ..isa.loops import repeat, room
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector, emits, vector
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
    line = gates * tier.lanes * 4

    @emits
    def sums(
        b: Any, height: Any, states: Any, row_bytes: Any, info: Any, column: Any, panel: Any, lines: Any, to: Any
    ) -> None:
        v = Vector(b, tier)
        done = b.append_basic_block("done")
        jump = b.switch(height, done)
        for rows in heights(tier, gates):
            body = b.append_basic_block(f"rows{rows}")
            jump.add_case(I64(rows), body)
            b.position_at_end(body)
            apart = chains(tier, rows * gates)
            places = (b.add(info, b.mul(row_bytes, I64(r))) for r in range(rows))
            begin = [x for place in places for x in start(v, place, column, panel, gates, projected)]
            begin += [v.const(0)] * (rows * gates * (apart - 1))
            found = _product(v, rows, apart, states, row_bytes, b.add(panel, I64(line)), lines, begin)
            for i, x in enumerate(found):
                v.store(x, v.at(v.pointer(to), i * tier.lanes))
            b.branch(done)
        b.position_at_end(done)

    def _product(
        v: Vector, rows: int, apart: int, states: Any, row_bytes: Any, panel: Any, lines: Any, begin: list[Any]
    ) -> list[Any]:
        """The sums [rows, gates]; line k adds to those of chain k modulo `apart`, which are summed at the end."""
        b, each = v.b, rows * gates

        def some(_: Any, state: list[Any]) -> list[Any]:
            at, weights, *sums = state
            for k in range(UNROLL):
                own = k % apart * each
                w = [v.load(v.at(v.pointer(weights), (k * gates + g) * tier.lanes)) for g in range(gates)]
                for r in range(rows):
                    x = v.broadcast(v.at(v.pointer(b.add(at, b.mul(row_bytes, I64(r)))), k))
                    for g in range(gates):
                        sums[own + r * gates + g] = v.fma(x, w[g], sums[own + r * gates + g])
            return [b.add(at, I64(4 * UNROLL)), b.add(weights, I64(UNROLL * line)), *sums]

        _, _, *sums = repeat(b, b.lshr(lines, I64(UNROLL.bit_length() - 1)), [states, panel, *begin], some)
        while len(sums) > each:
            half = len(sums) // 2
            sums = [b.fadd(x, y) for x, y in zip(sums[:half], sums[half:], strict=True)]
        return sums

    return sums


def start(v: Vector, info: Any, column: Any, panel: Any, gates: int, projected: int) -> list[Any]:
    """What a row's sums begin with."""
    at = v.b.add(v.b.load(v.at(v.pointer(info, I64), INFO.at("projected"))), column)
    return [v.load(v.at(v.pointer(at if g < projected else panel), g * v.lanes)) for g in range(gates)]


def chains(tier: Tier, sums: int) -> int:
    """How many sums each is split into, so that additions need not wait for one another."""
    most = 16 if tier.registers == 32 else 12
    return max(count for count in (1, 2, UNROLL) if count == 1 or count * sums <= most)


def make_room(tier: Tier, gates: int) -> Any:
    """An intrinsic room() for what `sums` gives: its address."""
    kind = ir.ArrayType(vector(ir.FloatType(), tier.lanes), gates * heights(tier, gates)[0])

    @emits
    def found(b: Any) -> Any:
        return b.ptrtoint(room(b, kind), I64)

    return found
