"""From the sums of a block of AMX tiles to stored numbers, 64 sums at a time; and the notes, records in scratch that
hold the addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.record import Record, fields
from ..gemm.requantize import byte_rounder, scaled, word
from ..gemm.rows import STORES
from ..isa.integer import in_order
from ..isa.stores import first_lanes
from ..isa.tiers import Tier
from ..isa.x86_amx import TILE
from ..lang import I32, Value, choose, divide, either, over, remainder, shuffle, traced
from .pack_amx import LINE, ROWS

BLOCK_NOTE = Record(panel="address of the block's panel", columns="how many of its columns there are")
TILE_NOTE = Record(a="where row 0 is read", y="where it is written", skip="rows at the start that are not written")
"""A note is a BLOCK_NOTE, then a TILE_NOTE for each of the block's tiles of pixels."""


def tile_note(note: Value, m: Any) -> Value:
    """The address of the m-th tile's record in a note."""
    return note + (m * len(TILE_NOTE) + len(BLOCK_NOTE)) * 8


def units(mt: int, nt: int) -> int:
    """Units of 64 sums in a block."""
    return mt * ROWS * nt // 4


def make_finish(tier: Tier, nt: int, out: str) -> Any:
    """BlockFunctions.finish. A unit is 4 / nt rows of a tile; rows that the tile lacks, or skips, are not stored."""
    per_unit, per_tile = 4 // nt, ROWS * nt // 4
    item, i32 = STORES[out], I32.vector(tier.lanes)

    def sums_of(panel: Value, start: Value) -> list[Scaled]:
        """The sums of a unit, four vectors, row by row."""
        found = []
        for r in range(per_unit):
            for n in range(nt):
                total = i32[start + (n * TILE + r * LINE)]
                found.append((total, scaled(total, panel + (nt + n) * LINE)))
        return found

    @traced
    def finish(note: Value, sums: Value, r: Any, first: Any, last: Any) -> None:
        block, line = fields(note, BLOCK_NOTE), r.ldy * item
        stored = _words(r) if out == "words" else _bytes(r)
        for unit in over(first, last):
            m = divide(unit, per_tile)
            row = remainder(unit, per_tile) * per_unit
            tile = fields(tile_note(note, m), TILE_NOTE)
            vectors = stored(sums_of(block.panel, sums + m * (nt * TILE) + row * LINE))
            targets = [tile.y + line * (row + i) for i in range(per_unit)]
            kept = [(tile.skip <= row + i) & (row + i < r.rows) for i in range(per_unit)]
            whole = block.columns == nt * 16
            for one in kept:
                whole = whole & one
            with either(whole) as (all_of_it, parts_of_it):
                with all_of_it:
                    for i, to in enumerate(targets):
                        _store_row(_columns(vectors, i, nt), to)
                with parts_of_it:
                    for i, to in enumerate(targets):
                        _store_row(_columns(vectors, i, nt), to, choose(kept[i], block.columns, 0))

    return finish


Scaled = tuple[Value, Value]
"""A vector of sums, and their products with their columns' multipliers."""
Stored = Callable[[Sequence[Scaled]], list[Value]]
"""From the sums of a unit to what is stored of it."""


def _words(r: Any) -> Stored:
    """Stores one vector of f32, or of the sums' bits, for each vector of sums."""
    return lambda scaled: [word(total, real, r) for total, real in scaled]


def _bytes(r: Any) -> Stored:
    """Stores one vector of bytes for a unit, row after row."""
    rounded = byte_rounder(r)
    return lambda scaled: [in_order(rounded([real for _, real in scaled]))]


def _columns(vectors: list[Value], r: int, nt: int) -> list[Value]:
    """The vectors of row r of a unit: nt of f32, or one of 16 * nt bytes."""
    if len(vectors) > 1:
        return vectors[r * nt : (r + 1) * nt]
    width = 16 * nt
    return [shuffle(vectors[0], range(r * width, (r + 1) * width))]


def _store_row(values: Sequence[Value], address: Value, count: Value | None = None) -> None:
    """Store adjacent vectors, or their first `count` elements."""
    for n, value in enumerate(values):
        kind = value.type
        mask = None if count is None else first_lanes(kind.lanes, count - n * kind.lanes)
        kind[address + n * kind.size, mask] = value
