"""Vectors of bytes that are interleaved, so that a 32-bit lane has what one sum needs; and their way to memory.

Interleaving keeps to 128 bits, as x86 does, and `integer.pack_bytes` undoes its order: byte 16 * l + 4 * s + e of a
vector of channels goes to 32-bit lane 4 * l + e of part s of PARTS. Constants per channel are stored in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from ..lang.both import both
from .byte_ops import copy_run
from .integer import bytes_type, dot_bytes, dot_halves, halves_type
from .loops import lesser
from .vector import I1, I8, I32, I64, Vector


@both
def unpack(v: Vector, x: Any, y: Any, high: bool) -> Any:
    """Elements of x and y in turn, from the lower or upper halves of every 128 bits."""
    count = x.type.count
    each = 4 * count // v.lanes
    places = []
    for lane in range(0, count, each):
        half = range(lane + each // 2, lane + each) if high else range(lane, lane + each // 2)
        places += [i for k in half for i in (k, k + count)]
    return v.b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, count), places))


@both
def interleave(v: Vector, rows: Sequence[Any]) -> list[Any]:
    """The PARTS vectors that have in each 32-bit lane one byte of each of four rows, or of two as i16."""
    zero = ir.Constant(bytes_type(v), [0] * 4 * v.lanes)
    halves, kind = (False, True), halves_type(v)
    pairs = [unpack(v, rows[0], rows[1], half) for half in halves]
    if len(rows) == 2:
        return [unpack(v, pair, zero, half) for pair in pairs for half in halves]
    others = [v.b.bitcast(unpack(v, rows[2], rows[3], half), kind) for half in halves]
    return [unpack(v, v.b.bitcast(x, kind), y, half) for x, y in zip(pairs, others, strict=True) for half in halves]


@both
def dot(v: Vector, sums: Any, x: Any, w: Any, wide: bool) -> Any:
    """sums + the products of a 32-bit lane: four of u8 and s8, or (wide) two of i16."""
    return v.b.add(sums, dot_halves(v, x, w)) if wide else dot_bytes(v, sums, x, w)


@both
def load_bytes(v: Vector, pointer: Any) -> Any:
    """4 * lanes bytes from any pointer."""
    return v.b.load(v.b.bitcast(pointer, bytes_type(v).as_pointer()), align=1)


@both
def load_pieces(v: Vector, pointers: Sequence[Any]) -> Any:
    """As many equal runs of bytes as there are pointers (a power of two), one after the other."""
    kind = ir.VectorType(I8, 4 * v.lanes // len(pointers))
    parts = [v.b.load(v.b.bitcast(pointer, kind.as_pointer()), align=1) for pointer in pointers]
    while len(parts) > 1:
        places = ir.Constant(ir.VectorType(I32, 2 * parts[0].type.count), list(range(2 * parts[0].type.count)))
        parts = [v.b.shuffle_vector(x, y, places) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


@both
def store_pieces(v: Vector, value: Any, pointers: Sequence[Any]) -> None:
    """Store equal runs of a vector's bytes to the pointers, in order."""
    each = value.type.count // len(pointers)
    for k, pointer in enumerate(pointers):
        places = ir.Constant(ir.VectorType(I32, each), list(range(k * each, (k + 1) * each)))
        store_bytes(v, v.b.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), places), pointer)


@both
def store_bytes(v: Vector, value: Any, pointer: Any) -> None:
    v.b.store(value, v.b.bitcast(pointer, value.type.as_pointer()), align=1)


@both
def store_first(v: Vector, value: Any, pointer: Any, count: Any) -> None:
    """Store the first `count` (int64, from 0 to all) bytes."""
    b, kind = v.b, bytes_type(v)
    if v.tier.lanes == 16:
        index = ir.Constant(kind, list(range(kind.count)))
        mask = b.icmp_unsigned("<", index, v.splat(b.trunc(count, I8), kind.count))
        pointer, masks = b.bitcast(pointer, kind.as_pointer()), ir.VectorType(I1, kind.count)
        store = v.declare(f"llvm.masked.store.v{kind.count}i8.p0", ir.VoidType(), [kind, pointer.type, I32, masks])
        b.call(store, [value, pointer, I32(1), mask])
        return
    with b.goto_entry_block():
        slot = b.alloca(kind)
    b.store(value, slot)
    copy_run(b, v.tier, b.ptrtoint(pointer, I64), b.ptrtoint(slot, I64), count)


@both
def store_some(v: Vector, value: Any, pointer: Any, count: Any) -> None:
    """Store the first `count` (int64) bytes, of which there may be more than are in a vector."""
    b, width = v.b, I64(4 * v.lanes)
    if v.tier.lanes == 16:
        store_first(v, value, pointer, lesser(b, count, width))
        return
    with b.if_else(b.icmp_signed(">=", count, width), likely=True) as (whole, part):
        with whole:
            store_bytes(v, value, pointer)
        with part:
            store_first(v, value, pointer, count)
