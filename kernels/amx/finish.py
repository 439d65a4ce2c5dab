"""From the sums of a block of AMX tiles to stored numbers, 64 sums at a time; and the notes that say where they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..core.record import Record, loaded
from ..gemm.requantize import byte_rounder, word
from ..gemm.rows import STORES
from ..isa.integer import in_order
from ..isa.loops import loop
from ..isa.tiers import Tier
from ..isa.tile_registers import TILE
from ..isa.vector import I1, I8, I32, I64, Vector, emits
from .pack import LINE, ROWS

BLOCK_NOTE = Record(panel="address of the block's panel", columns="how many of its columns there are")
TILE_NOTE = Record(a="where row 0 is read", y="where it is written", skip="rows at the start that are not written")
"""A note is a BLOCK_NOTE, then a TILE_NOTE for each of the block's tiles of pixels."""


def tile_note(b: Any, note: Any, m: Any) -> Any:
    """Where the slots of the m-th tile are."""
    return b.add(note, b.mul(b.add(b.mul(m, I64(len(TILE_NOTE))), I64(len(BLOCK_NOTE))), I64(8)))


def units(mt: int, nt: int) -> int:
    """How many parts a block's finish has: each is 64 sums."""
    return mt * ROWS * nt // 4


def make_finish(tier: Tier, nt: int, out: str) -> Any:
    """Block.finish. A unit is 4 / nt rows of a tile; rows that the tile lacks, or skips, are not written."""
    per_unit, per_tile = 4 // nt, ROWS * nt // 4
    item = STORES[out]

    @emits
    def finish(b: Any, note: Any, sums: Any, r: Any, first: Any, last: Any) -> None:
        v = Vector(b, tier)
        block, line = loaded(b, note, BLOCK_NOTE), b.mul(r.ldy, I64(item))
        finished = _words(v, r) if out == "words" else _bytes(v, r)
        with loop(b, first, last, 1) as unit:
            m = b.udiv(unit, I64(per_tile))
            row = b.mul(b.urem(unit, I64(per_tile)), I64(per_unit))
            tile = loaded(b, tile_note(b, note, m), TILE_NOTE)
            start = b.add(b.add(sums, b.mul(m, I64(nt * TILE))), b.mul(row, I64(LINE)))
            vectors = finished(_scaled(v, block.panel, start, nt))
            targets = [b.add(tile.y, b.mul(line, b.add(row, I64(i)))) for i in range(per_unit)]
            kept = [_within(b, b.add(row, I64(i)), tile.skip, r.rows) for i in range(per_unit)]
            whole = b.icmp_signed("==", block.columns, I64(nt * 16))
            for one in kept:
                whole = b.and_(whole, one)
            with b.if_else(whole) as (all_of_it, parts_of_it):
                with all_of_it:
                    for i, to in enumerate(targets):
                        _store_row(v, _columns(b, vectors, i, nt), to, item)
                with parts_of_it:
                    for i, to in enumerate(targets):
                        _store_row(v, _columns(b, vectors, i, nt), to, item, b.select(kept[i], block.columns, I64(0)))

    return finish


Scaled = tuple[Any, Any]
"""A vector of sums, and their products with their columns' multipliers."""


def _scaled(v: Vector, panel: Any, start: Any, nt: int) -> list[Scaled]:
    """The sums of a unit, four vectors, row by row."""
    b, found = v.b, []
    for r in range(4 // nt):
        for n in range(nt):
            total = _load(b, b.add(start, I64(n * TILE + r * LINE)), v.itype)
            factor = _load(b, b.add(panel, I64((nt + n) * LINE)), v.type)
            found.append((total, b.fmul(b.sitofp(total, v.type), factor)))
    return found


Stored = Callable[[list[Scaled]], list[Any]]
"""From the sums of a unit to what is stored of it."""


def _words(v: Vector, r: Any) -> Stored:
    """A vector of f32, or of the sums' bits, for each."""
    return lambda scaled: [word(v, total, real, r) for total, real in scaled]


def _bytes(v: Vector, r: Any) -> Stored:
    """One vector of bytes, rows one behind the other."""
    rounded = byte_rounder(v, r)
    return lambda scaled: [in_order(v, rounded([real for _, real in scaled]))]


def _columns(b: Any, vectors: list[Any], r: int, nt: int) -> list[Any]:
    """The vectors of one row of a unit: nt of f32, or one of 16 * nt bytes."""
    if len(vectors) > 1:
        return vectors[r * nt : (r + 1) * nt]
    width = 16 * nt
    places = ir.Constant(ir.VectorType(I32, width), list(range(r * width, (r + 1) * width)))
    return [b.shuffle_vector(vectors[0], ir.Constant(vectors[0].type, ir.Undefined), places)]


def _store_row(v: Vector, values: list[Any], address: Any, item: int, count: Any = None) -> None:
    """Store vectors one behind the other, `count` elements of them."""
    b = v.b
    for n, value in enumerate(values):
        lanes = value.type.count
        pointer = b.inttoptr(b.add(address, I64(n * lanes * item)), value.type.as_pointer())
        if count is None:
            b.store(value, pointer, align=1)
            continue
        left = v.splat(b.trunc(b.sub(count, I64(n * lanes)), I8), lanes)
        index = ir.Constant(left.type, list(range(lanes)))
        name = f"llvm.masked.store.v{lanes}{'f32' if item == 4 else 'i8'}.p0"
        kinds = [value.type, pointer.type, I32, ir.VectorType(I1, lanes)]
        mask = b.icmp_signed("<", index, left)
        b.call(v.declare(name, ir.VoidType(), kinds), [value, pointer, I32(1), mask])


def _within(b: Any, row: Any, first: Any, last: Any) -> Any:
    return b.and_(b.icmp_signed("<=", first, row), b.icmp_signed("<", row, last))


def _load(b: Any, address: Any, kind: Any) -> Any:
    return b.load(b.inttoptr(address, kind.as_pointer()), align=4)
