"""How int8 kernels store their sums: times the multiplier, rounded half to even, plus the zero point, clamped.

`stored`: the slots rows.STORED, or all of a record that has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ..isa.functions import maximum, minimum
from ..isa.integer import to_bytes
from ..isa.loops import repeat, room
from ..isa.vector import F32, I1, I8, I32, I64, Vector
from ..lang.both import both
from .pack_int8 import parts
from .results import Place


@both
def scaled(v: Vector, total: Any, multiplier: Any, mask: Any = None) -> Any:
    """i32 sums as f32, times the f32 at `multiplier`."""
    factor = v.load(v.b.bitcast(multiplier, F32.as_pointer()), mask)
    return v.b.fmul(v.b.sitofp(total, v.type), factor)


@both
def clamped(v: Vector, x: Any, stored: Any) -> Any:
    """f32 held between the low and the high one."""
    low, high = (v.b.bitcast(v.splat(v.b.trunc(bound, I32)), v.type) for bound in (stored.low, stored.high))
    return minimum(v, high, maximum(v, low, x))


@both
def word(v: Vector, total: Any, real: Any, stored: Any) -> Any:
    """What is stored as f32 of an i32 sum and its scaled number: this one clamped, or the sum's bits."""
    whole = v.b.icmp_signed("!=", stored.form, I64(0))
    return v.b.select(whole, v.b.bitcast(total, v.type), clamped(v, real, stored))


@both
def byte_rounder(v: Vector, stored: Any) -> Callable[[Sequence[Any]], Any]:
    """What makes stored bytes of up to four f32 vectors, in the order of `isa.integer.pack_bytes`."""
    rounded = to_bytes(v, stored.zero_point, stored.low, stored.high)
    signs = v.splat(v.b.trunc(stored.form, I8), 4 * v.lanes)
    return lambda vectors: v.b.xor(rounded(vectors), signs)


@both
def store_bytes(v: Vector, place: Place, nv: int, rows: list[list[Any]], stored: Any) -> None:
    """Round rows of nv f32 vectors, whose columns are in pack_int8.column_order, and store them as bytes."""
    rounded = byte_rounder(v, stored)

    def row_pieces() -> list[tuple[int, int, Any]]:
        """(row, first column, bytes as i32 lanes) of all that is stored."""
        found = []
        for first, width in parts(nv):
            together = 4 // width
            for r in range(0, place.rows, together):
                group = rows[r : r + together]
                x = v.b.bitcast(rounded([s for row in group for s in row[first : first + width]]), v.itype)
                for i in range(len(group)):
                    found.append((r + i, first * v.lanes, _piece(v, x, i * width, width)))
        return found

    _store_rows(v, place, nv, row_pieces())


def _piece(v: Vector, x: Any, first: int, width: int) -> Any:
    """Dwords first.. of each 128 bits, `width` of them: the bytes of one row."""
    order = [4 * i + first + j for i in range(v.lanes // 4) for j in range(width)]
    if order == list(range(v.lanes)):
        return x
    mask = ir.Constant(ir.VectorType(I32, len(order)), order)
    return v.b.shuffle_vector(x, ir.Constant(x.type, ir.Undefined), mask)


def _store_rows(v: Vector, place: Place, nv: int, pieces: list[tuple[int, int, Any]]) -> None:
    b = v.b
    target, columns = b.inttoptr(place.c, I8.as_pointer()), place.columns

    def store(piece: Any, pointer: Any) -> None:
        b.store(piece, b.bitcast(pointer, piece.type.as_pointer()), align=1)

    def whole() -> None:
        for r, column, piece in pieces:
            store(piece, b.gep(target, [b.add(b.mul(place.ldc, I64(r)), I64(column))]))

    if columns is None:
        whole()
    elif v.lanes == 16:
        places = dict.fromkeys((column, piece.type.count) for _, column, piece in pieces)
        masks = {at: _byte_mask(v, at[1], b.sub(columns, I64(at[0]))) for at in places}
        for r, column, piece in pieces:
            pointer = b.gep(target, [b.add(b.mul(place.ldc, I64(r)), I64(column))])
            _masked(v, piece, pointer, masks[column, piece.type.count])
    else:
        with b.if_else(b.icmp_signed(">=", columns, I64(nv * v.lanes))) as (full, partial):
            with full:
                whole()
            with partial:
                _store_part(v, place, nv, pieces, store)


def _byte_mask(v: Vector, count: int, columns: Any) -> Any:
    """The mask of the first `columns` bytes of a piece of `count` words; 0 or less, or more than there are."""
    b, size = v.b, 1 << (4 * count - 1).bit_length()
    some = b.sub(b.shl(I64(1), columns), I64(1))
    bits = b.select(b.icmp_signed(">=", columns, I64(4 * count)), I64((1 << 4 * count) - 1), some)
    bits = b.select(b.icmp_signed("<=", columns, I64(0)), I64(0), bits)
    return b.bitcast(b.trunc(bits, ir.IntType(size)) if size < 64 else bits, ir.VectorType(I1, size))


def _masked(v: Vector, piece: Any, pointer: Any, mask: Any) -> None:
    """Store the bytes of a piece that the mask has."""
    b, size = v.b, mask.type.count
    if size > 4 * piece.type.count:
        order = [*range(piece.type.count), *[0] * (size // 4 - piece.type.count)]
        undef = ir.Constant(piece.type, ir.Undefined)
        wide = b.shuffle_vector(piece, undef, ir.Constant(ir.VectorType(I32, size // 4), order))
    else:
        wide = piece
    kind = ir.VectorType(I8, size)
    to = b.bitcast(pointer, kind.as_pointer())
    fn = v.declare(f"llvm.masked.store.v{size}i8.p0", ir.VoidType(), [kind, to.type, I32, mask.type])
    b.call(fn, [b.bitcast(wide, kind), to, I32(1), mask])


def _store_part(
    v: Vector, place: Place, nv: int, pieces: list[tuple[int, int, Any]], store: Callable[[Any, Any], None]
) -> None:
    """The first `columns` bytes of each row, by way of the stack."""
    b, width = v.b, nv * v.lanes
    buffer = b.bitcast(room(b, ir.ArrayType(I8, place.rows * width)), I8.as_pointer())
    for r, column, piece in pieces:
        store(piece, b.gep(buffer, [I64(r * width + column)]))
    copy = v.declare("llvm.memcpy.p0.p0.i64", ir.VoidType(), [buffer.type, buffer.type, I64, I1])

    def row(r: Any, _: list[Any]) -> list[Any]:
        to = b.inttoptr(b.add(place.c, b.mul(r, place.ldc)), I8.as_pointer())
        b.call(copy, [to, b.gep(buffer, [b.mul(r, I64(width))]), place.columns, I1(0)])
        return []

    repeat(b, I64(place.rows), [], row)
