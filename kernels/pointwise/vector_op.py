"""A step of a walked chain: an operation on rows x columns of values that lie anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ..core.record import loaded
from ..isa.loops import UNROLL, each, loop
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I64, Vector, emits
from .chain import emit_chain
from .rows import VALUE
from .steps import STEPS, arity


def make(tier: Tier, op: str) -> Callable[..., None]:
    """kernel(step, values, _): the step whose result and operands are named at address `step`.

    `values` is the address of a walk's values. The result may be the same memory as an operand that has its strides.
    """
    block = _block(tier, op)

    def vector_op(step: int, values: int, _: int) -> None:
        block(step, values)

    return vector_op


def _block(tier: Tier, op: str) -> Any:
    @emits
    def block(b: Any, step: Any, values: Any) -> None:
        v = Vector(b, tier)
        words, head = (b.inttoptr(address, I64.as_pointer()) for address in (step, values))
        rows, columns = (b.load(b.gep(head, [I64(i)])) for i in range(2))
        places = [loaded(b, b.add(values, b.load(b.gep(words, [I64(i)]))), VALUE) for i in range(1 + arity(op))]
        # Rows that lie behind one another are one.
        whole = ir.Constant(ir.IntType(1), 1)
        for place in places:
            whole = b.and_(whole, b.icmp_signed("==", place.row, b.mul(columns, place.column)))
        columns = b.select(whole, b.mul(rows, columns), columns)
        rows = b.select(whole, I64(1), rows)
        buffers = [_buffer(v) for _ in places[1:]]
        with loop(b, 0, rows, 1) as r:
            y, *xs = (b.gep(b.inttoptr(p.address, I8.as_pointer()), [b.mul(r, p.row)]) for p in places)
            sources = [_source(v, r, *each) for each in zip(places[1:], xs, buffers, strict=True)]
            _row(v, op, columns, y, sources)

    return block


def _buffer(v: Vector) -> Any:
    with v.b.goto_entry_block():
        room = v.b.alloca(ir.ArrayType(v.type, UNROLL))
        room.align = 4 * v.lanes
    return v.b.bitcast(room, I8.as_pointer())


def _source(v: Vector, r: Any, place: Any, x: Any, buffer: Any) -> tuple[Any, Any]:
    """Where a row of an operand is read, and the bytes from column to column: one number is repeated in the buffer."""
    b = v.b
    single = b.icmp_signed("==", place.column, I64(0))
    changed = b.or_(b.icmp_signed("==", r, I64(0)), b.icmp_signed("!=", place.row, I64(0)))
    with b.if_then(b.and_(single, changed)):
        wide = Vector(b, v.tier, UNROLL * v.lanes)
        wide.store(wide.broadcast(b.bitcast(x, F32.as_pointer())), b.bitcast(buffer, F32.as_pointer()))
    return b.select(single, buffer, x), place.column


def _row(v: Vector, op: str, columns: Any, y: Any, sources: Sequence[tuple[Any, Any]]) -> None:
    def apply(w: Vector, i: Any, mask: Any) -> None:
        at = [w.b.bitcast(w.b.gep(x, [w.b.mul(i, step)]), F32.as_pointer()) for x, step in sources]
        result = emit_chain(w, STEPS[op], [w.load(p, mask) for p in at])
        w.store(result, w.at(w.b.bitcast(y, F32.as_pointer()), i), mask)

    each(v, I64(0), columns, apply)
