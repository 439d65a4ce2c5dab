"""From the sums of a block of AMX tiles to stored numbers, 64 sums at a time; and the notes, records in scratch that
hold the addresses. Sums times multipliers lie within int32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.record import Record, fields
from ..gemm.requantize import byte_rounder, word
from ..gemm.rows import STORES
from ..isa.stores import first_lanes
from ..isa.tiers import Tier
from ..isa.x86_amx import TILE
from ..lang import F32, I32, U8, Value, choose, over, shuffle, traced, whole
from .pack_amx import LINE

BLOCK_NOTE = Record(panel="address of the block's panel", columns="how many of its columns there are")
TILE_NOTE = Record(a="where row 0 is read", y="where it is written", skip="rows at the start that are not written")
"""A note is a BLOCK_NOTE, then a TILE_NOTE for each of the block's tiles of pixels."""


def tile_note(note: Value, m: Any) -> Value:
    """The address of the m-th tile's record in a note."""
    return note + (m * len(TILE_NOTE) + len(BLOCK_NOTE)) * 8


def make_finish(tier: Tier, mt: int, nt: int, out: str) -> Any:
    """BlockFunctions.finish, four vectors of sums at a time: a unit is 4 / nt rows of a tile."""
    per_unit, item, i32 = 4 // nt, STORES[out], I32.vector(tier.lanes)

    def unit(sums: Value, factors: list[Value]) -> list[Scaled]:
        """The sums of a unit, row by row."""
        places = [sums + (n * TILE + r * LINE) for r in range(per_unit) for n in range(nt)]
        totals = [i32[place] for place in places]
        return [(total, total.to(F32) * factors[i % nt]) for i, total in enumerate(totals)]

    @traced
    def finish(note: Value, sums: Value, r: Any) -> None:
        block, line = fields(note, BLOCK_NOTE), r.ldy * item
        stored = _words(r, nt) if out == "words" else _bytes(r, nt)
        factors = [F32.like(i32)[block.panel + (nt + n) * LINE] for n in range(nt)]
        for m in over(mt):
            tile = fields(tile_note(note, m), TILE_NOTE)
            first = sums + m * (nt * TILE)
            whole_units = tile.skip + whole(r.rows - tile.skip, per_unit)
            end = choose(block.columns == nt * 16, whole_units, tile.skip)
            for row in over(tile.skip, end, per_unit):
                for i, vectors in enumerate(stored(unit(first + row * LINE, factors))):
                    _store_row(vectors, tile.y + line * (row + i))
            for row in over(end, r.rows, per_unit):
                for i, vectors in enumerate(stored(unit(first + row * LINE, factors))):
                    columns = choose(row + i < r.rows, block.columns, 0)
                    _store_row(vectors, tile.y + line * (row + i), columns)

    return finish


Scaled = tuple[Value, Value]
"""A vector of sums, and their products with their columns' multipliers."""
Stored = Callable[[Sequence[Scaled]], list[list[Value]]]
"""From the sums of a unit to the vectors that are stored of each of its rows."""


def _words(r: Any, nt: int) -> Stored:
    """A vector of f32, or of the sums' bits, for each vector of sums."""

    def stored(scaled: Sequence[Scaled]) -> list[list[Value]]:
        words = [word(total, real, r) for total, real in scaled]
        return [words[first : first + nt] for first in range(0, len(words), nt)]

    return stored


def _bytes(r: Any, nt: int) -> Stored:
    """A vector of 16 * nt bytes for each row; columns are in pack_int8.column_order."""
    rounded, width = byte_rounder(r, within=True), 16 * nt

    def stored(scaled: Sequence[Scaled]) -> list[list[Value]]:
        packed = rounded([real for _, real in scaled]).bits(I32)
        rows = [4 * i + first + j for first in range(0, 4, nt) for i in range(4) for j in range(nt)]
        in_rows = packed if nt == 4 else shuffle(packed, rows)
        return [[shuffle(in_rows.bits(U8), range(at, at + width))] for at in range(0, 64, width)]

    return stored


def _store_row(values: Sequence[Value], address: Value, count: Value | None = None) -> None:
    """Store adjacent vectors, or their first `count` elements."""
    for n, value in enumerate(values):
        kind = value.type
        mask = None if count is None else first_lanes(kind.lanes, count - n * kind.lanes)
        kind[address + n * kind.size, mask] = value
