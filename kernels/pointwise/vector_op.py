"""A step of a walked chain: an operation on rows x columns of values that lie anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ..core.record import loaded
from ..isa.elements import BYTES, ELEMENTS, Rounding, load, load_dealt, write
from ..isa.loops import UNROLL, cover, each, loop
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I64, Vector, emits
from .chain import emit_chain
from .rows import VALUE
from .steps import NUMBER, ROUNDED, STEPS, Step


def make(tier: Tier, op: str) -> Callable[..., None]:
    """kernel(step, values, _): the step whose result and operands are named at address `step`.

    `values` is the address of a walk's values. The result may be the same memory as an operand that has its strides.
    Bytes and other narrow elements are read over the end of a row: less than a vector of them, or 4 * lanes bytes.
    """
    block = _block(tier, STEPS[op])

    def vector_op(step: int, values: int, _: int) -> None:
        block(step, values)

    return vector_op


def _block(tier: Tier, step: Step) -> Any:
    @emits
    def block(b: Any, named: Any, values: Any) -> None:
        v = Vector(b, tier)
        words, head = (b.inttoptr(address, I64.as_pointer()) for address in (named, values))
        rows, columns = (b.load(b.gep(head, [I64(i)])) for i in range(2))
        places = [loaded(b, b.add(values, b.load(b.gep(words, [I64(i)]))), VALUE) for i in range(1 + step.arity)]
        kinds = [*step.elements, *[NUMBER] * 3] if step.out in ROUNDED else step.elements
        y, tensors = places[0], [p for p, kind in zip(places[1:], kinds, strict=True) if kind != NUMBER]
        numbers = [_number(v, p) for p, kind in zip(places[1:], kinds, strict=True) if kind == NUMBER]
        # Rows that lie behind one another are one.
        whole = ir.Constant(ir.IntType(1), 1)
        for place in (y, *tensors):
            whole = b.and_(whole, b.icmp_signed("==", place.row, b.mul(columns, place.column)))
        columns = b.select(whole, b.mul(rows, columns), columns)
        rows = b.select(whole, I64(1), rows)
        elements = [ELEMENTS[kind] for kind in kinds if kind != NUMBER]
        buffers = [_buffer(v) for _ in tensors]
        with loop(b, 0, rows, 1) as r:
            at, *xs = (b.gep(b.inttoptr(p.address, I8.as_pointer()), [b.mul(r, p.row)]) for p in (y, *tensors))
            sources = [_source(v, r, *one) for one in zip(tensors, xs, elements, buffers, strict=True)]
            (_row_of_f32 if _is_f32(step) else _row)(v, step, columns, at, sources, numbers)

    return block


def _is_f32(step: Step) -> bool:
    return {step.out, *step.elements} <= {"f32", NUMBER}


def _number(v: Vector, place: Any) -> Any:
    return v.b.load(v.pointer(place.address))


def _buffer(v: Vector) -> Any:
    """Memory for one number, repeated."""
    with v.b.goto_entry_block():
        room = v.b.alloca(ir.ArrayType(v.type, UNROLL))
        room.align = 4 * v.lanes
    return v.b.bitcast(room, I8.as_pointer())


def _source(v: Vector, r: Any, place: Any, x: Any, element: Any, buffer: Any) -> tuple[Any, Any]:
    """Where a row of an operand is read, and the bytes from column to column: one number is repeated in the buffer."""
    b = v.b
    single = b.icmp_signed("==", place.column, I64(0))
    changed = b.or_(b.icmp_signed("==", r, I64(0)), b.icmp_signed("!=", place.row, I64(0)))
    with b.if_then(b.and_(single, changed)):
        one = b.load(b.bitcast(x, element.as_pointer()), align=1)
        many = v.splat(one, UNROLL * v.lanes)
        b.store(many, b.bitcast(buffer, many.type.as_pointer()), align=4)
    return b.select(single, buffer, x), place.column


Sources = Sequence[tuple[Any, Any]]


def _row_of_f32(v: Vector, step: Step, columns: Any, y: Any, sources: Sources, numbers: Sequence[Any]) -> None:
    def apply(w: Vector, i: Any, mask: Any) -> None:
        values = [w.load(w.b.bitcast(_at(w, source, i), F32.as_pointer()), mask) for source in sources]
        result = emit_chain(w, step.chain, _operands(w, step, values, numbers))
        w.store(result, w.at(w.b.bitcast(y, F32.as_pointer()), i), mask)

    each(v, I64(0), columns, apply)


def _at(v: Vector, source: tuple[Any, Any], i: Any) -> Any:
    return v.b.gep(source[0], [v.b.mul(i, source[1])])


def _operands(v: Vector, step: Step, values: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
    """The chain's operands in their order."""
    tensors, rest = iter(values), iter(numbers)
    return [v.splat(next(rest)) if kind == NUMBER else next(tensors) for kind in step.elements]


def _row(v: Vector, step: Step, columns: Any, y: Any, sources: Sources, numbers: Sequence[Any]) -> None:
    """A row where elements are converted as they are loaded or stored."""
    b, out, rounding = v.b, step.out, None
    kinds = [kind for kind in step.elements if kind != NUMBER]
    if out == "bool":
        rounding = Rounding("u8", I64(0), I64(0), I64(1), "type")
    elif out != "f32":
        zero, low, high = (b.fptosi(x, I64) for x in numbers[-3:])
        rounding = Rounding(out, zero, low, high, "any")
    # Dealing costs less than shuffling where any bytes can be shuffled, but all that has lanes must be dealt.
    dealt = v.tier.lanes > 4 and all(kind in BYTES for kind in (out, *kinds))
    # With masked stores one block is faster than several vectors; it reads bytes over the end, but no more.
    wide = v.tier.lanes == 16 and all(kind in BYTES | {"f32"} for kind in kinds)

    def apply(w: Vector, i: Any, rest: Any = None) -> None:
        deal = dealt and w.lanes > v.lanes
        mask = None if rest is None else w.mask(rest)

        def operand(kind: str, source: tuple[Any, Any]) -> Any:
            place = b.bitcast(_at(w, source, i), ELEMENTS[kind].as_pointer())
            return load_dealt(w, kind, place) if deal else load(w, kind, place, mask)

        values = [operand(*one) for one in zip(kinds, sources, strict=True)]
        result = emit_chain(w, step.chain, _operands(w, step, values, numbers))
        _store(w, out, rounding, result, w.at(b.bitcast(y, ELEMENTS[out].as_pointer()), i), deal, rest)

    cover(v, I64(0), columns, wide, apply)


def _store(v: Vector, out: str, rounding: Rounding | None, x: Any, pointer: Any, dealt: bool, rest: Any) -> None:
    if rounding is None:
        v.store(x, pointer, None if rest is None else v.mask(rest))
        return
    if out == "bool":
        x = v.b.select(v.b.fcmp_unordered("une", x, v.const(0)), v.const(1), v.const(0))
    four = v.lanes > v.tier.lanes and out in BYTES
    write(v, rounding.packed(v, x, dealt) if four else rounding.narrow(v, x), pointer, rest)
