"""Vectors of interleaved bytes, so that each 32-bit lane has the factors of one sum; their loads and stores.

Bytes are interleaved within 128 bits, as x86 does, and `integer.pack_bytes` undoes the order: byte 16 * l + 4 * s + e
of a vector of channels is in 32-bit lane 4 * l + e of part s of PARTS. Constants per channel are stored in that order.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..lang import I16, U8, Type, Value, joined, shuffle, tier
from .integer import dot_bytes, dot_halves


def _bytes() -> Type:
    return U8.vector(4 * tier().lanes)


def unpack(x: Value, y: Value, high: bool) -> Value:
    """Elements of x and y in turn, from the lower or upper halves of every 128 bits."""
    count = x.lanes
    each = 128 // x.type.bits
    places = []
    for lane in range(0, count, each):
        half = range(lane + each // 2, lane + each) if high else range(lane, lane + each // 2)
        places += [i for k in half for i in (k, k + count)]
    return shuffle(x, places, y)


def interleave(rows: Sequence[Value]) -> list[Value]:
    """The PARTS vectors that have in each 32-bit lane one byte of each of four rows, or of two as i16."""
    halves = (False, True)
    pairs = [unpack(rows[0], rows[1], half) for half in halves]
    if len(rows) == 2:
        return [unpack(pair, pair.type(0), half) for pair in pairs for half in halves]
    others = [unpack(rows[2], rows[3], half).bits(I16) for half in halves]
    return [unpack(x.bits(I16), y, half) for x, y in zip(pairs, others, strict=True) for half in halves]


def dot(sums: Value, x: Value, w: Value, wide: bool) -> Value:
    """sums + the products of a 32-bit lane: four of u8 and s8, or (wide) two of i16."""
    return sums + dot_halves(x, w) if wide else dot_bytes(sums, x, w)


def load_pieces(pointers: Sequence[Value]) -> Value:
    """Equal runs of bytes, one per pointer (a power of two), as one vector."""
    piece = U8.vector(_bytes().lanes // len(pointers))
    return joined(*(piece[pointer] for pointer in pointers))


def store_pieces(value: Value, pointers: Sequence[Value]) -> None:
    """Store equal parts of a vector's bytes to the pointers, in order."""
    each = value.lanes // len(pointers)
    for k, pointer in enumerate(pointers):
        value.type.number.vector(each)[pointer] = shuffle(value, range(k * each, (k + 1) * each))
