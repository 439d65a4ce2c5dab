"""The pieces of a block of AMX tiles: sums in tile registers, and their way back to stored numbers.

A block is mt x nt tiles of sums: mt tiles of pixels by 16 * nt output channels. When its sums are complete they
are kept in memory, and scaled and stored bit by bit while the tiles work on the next block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from ..core.record import loaded
from ..isa.loops import loop
from ..isa.tiers import Tier
from ..isa.tile_registers import TILE, TileRegisters
from ..isa.vector import I8, I32, I64, emits
from .finish import BLOCK_NOTE, TILE_NOTE, make_finish, tile_note
from .pack import LINE, numbering


class Block(NamedTuple):
    """Intrinsics over int64s; `note` and `sums` are addresses in a thread's memory, as pack.WORK says.

    A note says what a block is: its panel, how many columns of it there are, and for each of its mt tiles where
    row 0 is read (a) and written (y), and how many rows at its start are not to be written (skip).
    """

    configure: Any
    """configure(config): shapes of the tiles."""
    release: Any
    """release(): give up the tiles."""
    note: Any
    """note(note, panel, columns): what is the same for all of the block's tiles; columns <= 16 * nt."""
    place: Any
    """place(note, m, a, y, skip): the same for its m-th tile."""
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
    """finish(note, sums, r, first, last): scale and store units first.. of UNITS, as the record r says."""


def make_block(tier: Tier, mt: int, nt: int, out: str) -> Block:
    """The pieces for blocks of mt x nt tiles; mt * nt is at most 4."""
    a_tiles, b_tiles = numbering(mt, nt)
    sums_of = [[m * nt + n for n in range(nt)] for m in range(mt)]
    step_bytes = nt * TILE

    @emits
    def configure(b: Any, config: Any) -> None:
        TileRegisters(b).configure(config)

    @emits
    def release(b: Any) -> None:
        TileRegisters(b).release()

    @emits
    def note(b: Any, at: Any, panel: Any, columns: Any) -> None:
        _put(b, at, BLOCK_NOTE.filled(panel=panel, columns=columns))

    @emits
    def place(b: Any, at: Any, m: Any, a: Any, y: Any, skip: Any) -> None:
        _put(b, tile_note(b, at, m), TILE_NOTE.filled(a=a, y=y, skip=skip))

    @emits
    def begin(b: Any, panel: Any) -> None:
        registers = TileRegisters(b)
        for row in sums_of:
            for n, c in enumerate(row):
                registers.load(c, b.add(panel, I64(n * LINE)), I64(0))

    @emits
    def steps(b: Any, at: Any, rs: Any, table: Any, first: Any, last: Any, ahead: Any, lines: Any) -> None:
        registers = TileRegisters(b)
        weights = b.add(loaded(b, at, BLOCK_NOTE).panel, I64(2 * nt * LINE))
        starts = [loaded(b, tile_note(b, at, I64(m)), TILE_NOTE).a for m in range(mt)]
        with loop(b, first, last, 1) as s:
            offset = b.load(b.gep(b.inttoptr(table, I64.as_pointer()), [s]))
            line = b.add(weights, b.mul(s, I64(step_bytes)))
            with loop(b, 0, lines, 1) as i:
                _prefetch(b, b.add(b.add(line, ahead), b.mul(i, I64(LINE))))
            # The side that stays in its registers is loaded along with the first of the other.
            for n in range(nt):
                registers.load(b_tiles[n], b.add(line, I64(n * TILE)), I64(LINE))
                for m in range(mt):
                    if n == 0:
                        registers.load(a_tiles[m], b.add(starts[m], offset), rs)
                    registers.multiply(sums_of[m][n], a_tiles[m], b_tiles[n])

    @emits
    def keep(b: Any, sums: Any) -> None:
        registers = TileRegisters(b)
        for c in range(mt * nt):
            registers.store(c, b.add(sums, I64(c * TILE)), I64(LINE))

    return Block(configure, release, note, place, begin, steps, keep, make_finish(tier, nt, out))


def _put(b: Any, address: Any, values: list[Any]) -> None:
    """Store int64s one behind the other."""
    first = b.inttoptr(address, I64.as_pointer())
    for i, value in enumerate(values):
        b.store(value, b.gep(first, [I64(i)]))


def _prefetch(b: Any, address: Any) -> None:
    pointer = b.inttoptr(address, I8.as_pointer())
    module, name = b.module, "llvm.prefetch.p0"
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, I32, I32, I32])
    b.call(module.globals.get(name) or ir.Function(module, kind, name), [pointer, I32(0), I32(2), I32(1)])
