"""How int8 kernels store their sums: times the multiplier, rounded half to even, plus the zero point, clamped.

Those of layers that become bytes are less than 2**31 when they are multiplied.

`stored`: the slots rows.STORED, or all of a record that has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..isa.functions import maximum, minimum
from ..isa.integer import pack_bytes, round_to_int
from ..lang import Value, choose, copy_bytes, either, intrinsic, repeat, room, shuffle, tier
from ..lang.types import BIT, F32, I16, I32, I64, U8, integer
from .pack_int8 import fours, parts
from .results import Destination


def scaled(total: Value, multiplier: Value, mask: Value | None = None) -> Value:
    """i32 sums as f32, times the multipliers (f32) at a pointer."""
    factor = F32.like(total.type)[multiplier, mask]
    return total.to(F32) * factor


def clamped(x: Value, stored: Any) -> Value:
    """f32 clamped to the record's low and high."""
    i32 = I32.like(x.type)
    low, high = (i32(bound.to(I32)).bits(F32) for bound in (stored.low, stored.high))
    return minimum(high, maximum(low, x))


def word(total: Value, real: Value, stored: Any) -> Value:
    """The stored word, as f32: the clamped real, or the bits of the i32 sum."""
    return choose(stored.form != 0, total.bits(F32), clamped(real, stored))


def byte_rounder(
    stored: Any, bare: bool = False, within: bool = True, lanes: int = 0
) -> Callable[[Sequence[Value]], Value]:
    """A function from up to four f32 vectors to stored bytes, in the order of `isa.integer.pack_bytes`; bare: for slots
    that are `is_bare`; within: of numbers less than 2**31; lanes: of each vector, if not the tier's.
    """
    # What is high or more becomes 255 and is moved down, which changes signs too.
    lanes, up = lanes or tier().lanes, 255 - stored.high
    zeros = I16.vector(2 * lanes)((stored.zero_point + up).to(I16))
    low, down = (U8.vector(4 * lanes)((number + up).to(U8)) for number in (stored.low, stored.form))

    def rounded(vectors: Sequence[Value]) -> Value:
        words = [round_to_int(x, within) for x in vectors]
        if bare:
            return pack_bytes(words)
        return intrinsic("umax", pack_bytes(words, zeros), low) - down  # type: ignore[no-any-return]

    return rounded


def is_bare(stored: Any) -> Value:
    """Whether stored numbers are u8 with a zero point of 0 and no other limits."""
    return ((stored.zero_point | stored.low | stored.form) == 0) & (stored.high == 255)


class _Piece(NamedTuple):
    """Bytes of a row from a column on, as i32 lanes."""

    row: int
    column: int
    bytes: Value

    def at(self, start: Value, line: Any) -> Value:
        """Where it goes in rows of `line` bytes from a pointer to bytes on."""
        return start + (line * self.row + self.column)


def store_bytes(dest: Destination, nv: int, rows: list[list[Value]], stored: Any, half: bool = False) -> None:
    """Round rows of nv f32 vectors, whose columns are in pack_int8.column_order, and store them as bytes."""
    rounded, lanes, pieces = byte_rounder(stored, lanes=rows[0][0].lanes), tier().lanes, list[_Piece]()
    for first, width in parts(nv):
        together = 4 // width
        for r in range(0, dest.rows, together):
            group = rows[r : r + together]
            packed = rounded([x for row in group for x in row[first : first + width]]).bits(I32)
            for i in range(len(group)):
                pieces.append(_Piece(r + i, first * lanes, _dwords(packed, i * width, width, half)))
    if dest.columns is None:
        _store_whole(dest, pieces)
    elif tier().masks:
        _store_masked(dest, pieces)
    else:
        with either(dest.columns >= nv * lanes) as (full, partial):
            with full:
                _store_whole(dest, pieces)
            with partial:
                _store_part(dest, nv * lanes, pieces)


def _dwords(x: Value, first: int, width: int, half: bool) -> Value:
    """`width` dwords of each 128 bits from dword `first` on: the bytes of one row."""
    order = [4 * i + first + j for i, j in fours(width, x.lanes, half)]
    return x if order == list(range(x.lanes)) else shuffle(x, order)


def _store_whole(dest: Destination, pieces: Sequence[_Piece]) -> None:
    for piece in pieces:
        piece.bytes.type[piece.at(U8.at(dest.c), dest.ldc)] = piece.bytes


def _store_masked(dest: Destination, pieces: Sequence[_Piece]) -> None:
    """The first `columns` bytes of each row, under masks."""
    kinds = dict.fromkeys((piece.column, piece.bytes.type) for piece in pieces)
    masks = {(column, kind): _byte_mask(4 * kind.lanes, dest.columns - column) for column, kind in kinds}
    for piece in pieces:
        x, mask = piece.bytes, masks[piece.column, piece.bytes.type]
        if lacking := mask.lanes // 4 - x.lanes:
            x = shuffle(x, [*range(x.lanes), *[0] * lacking])
        U8.like(mask.type)[piece.at(U8.at(dest.c), dest.ldc), mask] = x.bits(U8)


def _byte_mask(count: int, columns: Value) -> Value:
    """The mask of the first `columns` of `count` bytes, padded to a power of two; columns may be less than 0 or more
    than there are.
    """
    some = (I64(1) << columns) - 1
    bits = choose(columns >= count, (1 << count) - 1, some)
    bits = choose(columns <= 0, 0, bits)
    return bits.to(integer(1 << (count - 1).bit_length())).bits(BIT)


def _store_part(dest: Destination, width: int, pieces: Sequence[_Piece]) -> None:
    """The first `columns` bytes of each row of `width`, by way of the stack."""
    buffer = room(U8, dest.rows * width)
    for piece in pieces:
        piece.bytes.type[piece.at(buffer, width)] = piece.bytes

    def row(r: Value, _: list[Value]) -> list[Value]:
        copy_bytes(U8.at(dest.c + r * dest.ldc), buffer + r * width, dest.columns)
        return []

    repeat(I64(dest.rows), [], row)
