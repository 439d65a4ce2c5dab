"""From the sums of a block of AMX tiles to stored numbers, 64 sums at a time; and the notes, records in scratch that
hold the addresses. Sums times multipliers lie within int32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.record import Record
from ..gemm.requantize import byte_rounder, is_bare, word
from ..isa.stores import first_lanes
from ..isa.x86_amx import TILE
from ..lang import Value, choose, either, fma, joined, larger, over, registers, shuffle, smaller, tier, whole
from ..lang.types import F32, I32, I64, U8
from .pack_amx import LINE
from .tile_loop import Notes

NOTES = Notes(
    Record(panel="address of the block's panel", columns="how many of its columns there are"),
    Record(
        a="where row 0 is read",
        y="where it is written",
        addend="where what is added to it is",
        skip="rows at the start that are not written",
    ),
)
WHOLE = 1.5 * 2**23
"""f32 of this magnitude are whole numbers: halves are rounded to even."""


class _Stored(NamedTuple):
    """Slots like rows.STORED."""

    zero_point: Value
    low: Value
    high: Value
    form: Value


def finish(mt: int, nt: int, out: str, note: Value, sums: Value, r: Any) -> None:
    """Store the results of a block of mt x nt tiles; out: one of gemm's STORES."""
    if out == "words":
        _store(mt, nt, 4, note, sums, r, _words(r, nt))
        return
    with either(r.addend != 0, likely=False) as ways:
        for way, slots, make in zip(ways, (_slots_of_sum(r), r), (_sums, _bytes), strict=True):
            with way, either(is_bare(slots)) as branches:
                for branch, bare in zip(branches, (True, False), strict=True):
                    with branch:
                        _store(mt, nt, 1, note, sums, r, make(r, nt, bare))


def _store(mt: int, nt: int, item: int, note: Value, sums: Value, r: Any, stored: Stored) -> None:
    """Store a block, of elements of `item` bytes, four vectors of sums at a time: a unit is 4 / nt rows of a tile."""
    per_unit, i32 = 4 // nt, I32.vector(tier().lanes)
    block, line = NOTES.of_block(note), r.ldy * item
    factors = [F32.like(i32)[block.panel + (nt + n) * LINE] for n in range(nt)]

    def unit(sums: Value) -> list[Scaled]:
        """The sums of a unit, row by row."""
        places = [sums + (n * TILE + r * LINE) for r in range(per_unit) for n in range(nt)]
        totals = [i32[place] for place in places]
        return [(total, total.to(F32) * factors[i % nt]) for i, total in enumerate(totals)]

    def rows(tile: Any, first: Value, row: Value, counts: Counts) -> None:
        found = stored(unit(first + row * LINE), tile.addend + r.addend_row * row, counts)
        for i, (vectors, count) in enumerate(zip(found, counts, strict=True)):
            _store_row(vectors, tile.y + line * (row + i), count)

    for m in over(mt):
        tile = NOTES.of_tile(note, m)
        first = sums + m * (nt * TILE)
        whole_units = tile.skip + whole(r.rows - tile.skip, per_unit)
        end = choose(block.columns == nt * 16, whole_units, tile.skip)
        for row in over(tile.skip, end, per_unit):
            rows(tile, first, row, [None] * per_unit)
        for row in over(end, r.rows, per_unit):
            rows(tile, first, row, [choose(row + i < r.rows, block.columns, 0) for i in range(per_unit)])


Scaled = tuple[Value, Value]
"""A vector of sums, and their products with their columns' multipliers."""
Counts = Sequence[Value | None]
"""How many columns of each row of a unit there are; None for all."""
Stored = Callable[[Sequence[Scaled], Value, Counts], list[list[Value]]]
"""From the sums of a unit, the address of the first row's addend, and its columns to the vectors that are stored of
each of its rows."""


def _words(r: Any, nt: int) -> Stored:
    """A vector of f32, or of the sums' bits, for each vector of sums."""

    def stored(scaled: Sequence[Scaled], _: Value, counts: Counts) -> list[list[Value]]:
        words = [word(total, real, r) for total, real in scaled]
        return [words[first : first + nt] for first in range(0, len(words), nt)]

    return stored


def _bytes(r: Any, nt: int, bare: bool) -> Stored:
    """A vector of 16 * nt bytes for each row; columns are in pack_int8.column_order. bare: of `byte_rounder`."""
    rounded = byte_rounder(r, bare=bare)
    return lambda scaled, _, counts: _in_rows(rounded([real for _, real in scaled]), nt)


def _slots_of_sum(r: Any) -> _Stored:
    """How sums with the record's addend are stored."""
    return _Stored(r.sum_zero, r.sum_low, r.sum_high, r.sum_form)


def _sums(r: Any, nt: int, bare: bool) -> Stored:
    """As `_bytes`, of the sums with the record's addend."""
    rounded = byte_rounder(_slots_of_sum(r), bare=bare)

    def stored(scaled: Sequence[Scaled], addend: Value, counts: Counts) -> list[list[Value]]:
        own = _numbers(r, [real for _, real in scaled])
        other = _spread([_load_row(addend + r.addend_row * i, nt, count) for i, count in enumerate(counts)])
        sums = registers(own)
        with either(r.addend_first != 0) as (turned, straight):
            for way, operands in ((turned, (other, own)), (straight, (own, other))):
                with way:
                    for total, x in zip(sums.all, _added(r, *operands), strict=True):
                        total.value = x
        return _in_rows(rounded(sums.values()), nt)

    return stored


def _numbers(r: Any, reals: Sequence[Value]) -> list[Value]:
    """The u8 that `byte_rounder` makes of f32, as f32."""
    f32 = reals[0].type
    low, high = (f32((bound - r.zero_point).to(F32)) for bound in (r.low, r.high))
    back = f32((I64(int(WHOLE)) - r.zero_point).to(F32))
    return [(smaller(larger(x, low), high) + WHOLE) - back for x in reals]


def _added(r: Any, first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
    """The sums of numbers of both operands, in their own units."""
    f32 = first[0].type
    one, two, offset = (f32(bits.to(I32).bits(F32)) for bits in (r.first_factor, r.second_factor, r.offset))
    return [fma(y, two, fma(x, one, offset)) for x, y in zip(first, second, strict=True)]


def _order(nt: int) -> list[int]:
    """Where each four bytes of a unit's rows are in vectors as `isa.integer.pack_bytes` gives them."""
    return [4 * i + first + j for first in range(0, 4, nt) for i in range(4) for j in range(nt)]


def _in_rows(packed: Value, nt: int) -> list[list[Value]]:
    """The bytes of a unit's rows."""
    words, width = packed.bits(I32), 16 * nt
    in_rows = (words if nt == 4 else shuffle(words, _order(nt))).bits(U8)
    return [[shuffle(in_rows, range(at, at + width))] for at in range(0, 64, width)]


def _spread(rows: Sequence[Value]) -> list[Value]:
    """The f32 of a unit's rows of bytes, in the order of its sums."""
    nt, found = 4 // len(rows), joined(*rows)
    order = _order(nt)
    packed = found if nt == 4 else shuffle(found.bits(I32), [order.index(k) for k in range(16)]).bits(U8)
    zeros = packed.type(0)
    places = [[16 * (lane // 4) + 4 * v + lane % 4 for lane in range(16)] for v in range(4)]
    return [shuffle(packed, [b for at in v for b in (at, 64, 64, 64)], zeros).bits(I32).to(F32) for v in places]


def _load_row(address: Value, nt: int, count: Value | None) -> Value:
    """The bytes of a row, or the first ones of them."""
    kind = U8.vector(16 * nt)
    return kind[address, None if count is None else first_lanes(kind.lanes, count)]


def _store_row(values: Sequence[Value], address: Value, count: Value | None) -> None:
    """Store adjacent vectors, or their first `count` elements."""
    for n, value in enumerate(values):
        kind = value.type
        mask = None if count is None else first_lanes(kind.lanes, count - n * kind.lanes)
        kind[address + n * kind.size, mask] = value
