"""The parts of the AMX kernel: sums in tile registers, and their conversion to stored numbers.

A block is mt x nt tiles of sums: mt tiles of pixels by 16 * nt output channels. Complete sums are copied to memory, and
scaled and stored while the tiles work on the next block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.record import fields
from ..isa.tiers import Tier
from ..isa.x86_amx import TILE
from ..lang import I64, Value, over, prefetch, traced
from .finish import BLOCK_NOTE, TILE_NOTE, make_finish, tile_note
from .pack_amx import LINE, numbering


class BlockFunctions(NamedTuple):
    """Functions of int64s; `note` and `sums` are addresses in a thread's memory, laid out as pack_amx.WORK.

    A note describes a block: its panel, its number of columns, and for each of its mt tiles the addresses of row 0 in A
    (a), in the result (y) and in what is added to it (addend), and how many of its first rows are not stored (skip).
    """

    configure: Any
    """configure(config): shapes of the tiles."""
    release: Any
    """release(): give up the tiles."""
    note: Any
    """note(note, panel, columns): what is the same for all of the block's tiles; columns <= 16 * nt."""
    place: Any
    """place(note, m, a, y, addend, skip): the same for its m-th tile."""
    begin: Any
    """begin(panel): the sums are the bias."""
    steps: Any
    """steps(note, rs, table, first, last, ahead, lines): add the products of some lines of A.

    Line s of a pixel is table[s] bytes from its start; pixels are rs bytes apart. For each line, `lines` cache lines
    from `ahead` bytes behind its weights on are prefetched.
    """
    keep: Any
    """keep(sums): the sums go to memory."""
    finish: Any
    """finish(note, sums, r): scale and store the sums in memory, as the record r says."""


def make_registers(tier: Tier) -> tuple[Any, Any]:
    """BlockFunctions.configure and release."""

    @traced
    def configure(config: Value) -> None:
        tier.isa.configure(config)

    @traced
    def release() -> None:
        tier.isa.release()

    return configure, release


def make_block(tier: Tier, mt: int, nt: int, out: str) -> BlockFunctions:
    """The functions for blocks of mt x nt tiles; mt * nt is at most 4."""
    a_tiles, b_tiles = numbering(mt, nt)
    sums_of = [[m * nt + n for n in range(nt)] for m in range(mt)]
    step_bytes = nt * TILE

    @traced
    def note(at: Value, panel: Value, columns: Value) -> None:
        _put(at, BLOCK_NOTE.filled(panel=panel, columns=columns))

    @traced
    def place(at: Value, m: Value, a: Value, y: Value, addend: Value, skip: Value) -> None:
        _put(tile_note(at, m), TILE_NOTE.filled(a=a, y=y, addend=addend, skip=skip))

    @traced
    def begin(panel: Value) -> None:
        for row in sums_of:
            for n, c in enumerate(row):
                tier.isa.load(c, panel + n * LINE, 0)

    @traced
    def steps(at: Value, rs: Value, table: Value, first: Value, last: Value, ahead: Value, lines: Value) -> None:
        weights = fields(at, BLOCK_NOTE).panel + 2 * nt * LINE
        starts = [fields(tile_note(at, m), TILE_NOTE).a for m in range(mt)]
        for s in over(first, last):
            offset = I64.at(table)[s]
            line = weights + s * step_bytes
            for i in over(lines):
                prefetch(line + ahead + i * LINE)
            # The side that stays in its registers is loaded along with the first of the other.
            for n in range(nt):
                tier.isa.load(b_tiles[n], line + n * TILE, LINE)
                for m in range(mt):
                    if n == 0:
                        tier.isa.load(a_tiles[m], starts[m] + offset, rs)
                    tier.isa.multiply(sums_of[m][n], a_tiles[m], b_tiles[n])

    @traced
    def keep(sums: Value) -> None:
        for c in range(mt * nt):
            tier.isa.store(c, sums + c * TILE, LINE)

    return BlockFunctions(*make_registers(tier), note, place, begin, steps, keep, make_finish(tier, mt, nt, out))


def _put(address: Value, values: Sequence[Value]) -> None:
    """Store adjacent int64s."""
    first = I64.at(address)
    for i, value in enumerate(values):
        first[i] = value
