"""A step of a walked chain: an operation on rows x columns of values that lie anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

from llvmlite import ir

from ..core.record import loaded
from ..isa.elements import BYTES, ELEMENTS, LIMITS, Rounding, load, load_dealt, load_one, write
from ..isa.loops import UNROLL, cover, each, loop, room, variable
from ..isa.tiers import Tier
from ..isa.vector import F32, I8, I32, I64, Vector, emits
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
        held = [kind for kind in kinds if kind != NUMBER]
        tensors = [_repeated(v, rows, place, kind) for place, kind in zip(tensors, held, strict=True)]
        # Rows that lie behind one another are one.
        whole = ir.Constant(ir.IntType(1), 1)
        for place in (y, *tensors):
            whole = b.and_(whole, b.icmp_signed("==", place.row, b.mul(columns, place.column)))
        columns = b.select(whole, b.mul(rows, columns), columns)
        rows = b.select(whole, I64(1), rows)
        rows = b.select(b.icmp_signed(">", columns, I64(0)), rows, I64(0))
        single = reduce(b.or_, [p.single for p in tensors])
        spare = b.bitcast(head, I8.as_pointer())

        def run(varied: bool, limits: str = "bounds" if step.bounded else "any") -> None:
            with loop(b, 0, rows, 1) as r:
                at, *xs = (b.gep(b.inttoptr(p.address, I8.as_pointer()), [b.mul(r, p.row)]) for p in (y, *tensors))
                sources = [_source(v, *one, spare) for one in zip(tensors, xs, held, strict=True)]
                if _is_f32(step):
                    _row_of_f32(v, step, columns, at, sources, numbers, varied)
                else:
                    _row(v, step, columns, at, sources, numbers, varied, limits)

        with b.if_else(single) as (then, otherwise):
            with then:
                run(varied=True)
            with otherwise:
                if not step.bounded:
                    run(varied=False)
                    return
                with b.if_else(_unlimited(v, step.out, *numbers[-2:])) as (no_limits, limits):
                    with no_limits:
                        run(varied=False, limits="type")
                    with limits:
                        run(varied=False)

    return block


def _is_f32(step: Step) -> bool:
    return {step.out, *step.elements} <= {"f32", NUMBER}


def _unlimited(v: Vector, out: str, low: Any, high: Any) -> Any:
    """Whether results have no limits but those of their type."""
    ends = zip((low, high), LIMITS[out], strict=True)
    return v.b.and_(*(v.b.fcmp_ordered("==", x, ir.Constant(F32, end)) for x, end in ends))


def _number(v: Vector, place: Any) -> Any:
    return v.b.load(v.pointer(place.address))


class Operand(NamedTuple):
    """A tensor as VALUE. single: it has one number for each row."""

    address: Any
    row: Any
    column: Any
    single: Any


def _repeated(v: Vector, rows: Any, place: Any, kind: str) -> Operand:
    """The operand at `place`; of one number for all rows there are as many as are read at once."""
    b, address = v.b, variable(v.b, place.address)
    number = b.icmp_signed("==", place.column, I64(0))
    same = b.or_(b.icmp_signed("==", place.row, I64(0)), b.icmp_signed("==", rows, I64(1)))
    with b.if_then(b.and_(number, same)):
        one = b.load(v.pointer(place.address, ELEMENTS[kind]))
        raw = ir.VectorType(ELEMENTS[kind], UNROLL * v.lanes)
        first = b.insert_element(ir.Constant(raw, ir.Undefined), one, I32(0))
        copies = room(b, raw)
        b.store(b.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, raw.count), [0] * raw.count)), copies)
        b.store(b.ptrtoint(copies, I64), address)
    return Operand(b.load(address), b.select(same, I64(0), place.row), place.column, b.and_(number, b.not_(same)))


class Source(NamedTuple):
    """A row of an operand: where it is read, and the bytes from column to column; one number if that is 0."""

    start: Any
    column: Any
    single: Any
    one: Any

    def load(self, v: Vector, kind: str, i: Any, mask: Any, dealt: bool, varied: bool) -> Any:
        """The f32 from column i on; `varied` unless it is known that the operand is not single."""
        b = v.b
        place = b.bitcast(b.gep(self.start, [b.mul(i, self.column)]), ELEMENTS[kind].as_pointer())
        x = load_dealt(v, kind, place) if dealt else load(v, kind, place, mask)
        return b.select(v.splat(self.single), v.splat(self.one), x) if varied else x


def _source(v: Vector, place: Operand, x: Any, kind: str, elsewhere: Any) -> Source:
    """elsewhere: readable memory, for vectors that nobody needs."""
    one = load_one(v, kind, v.b.bitcast(x, ELEMENTS[kind].as_pointer()))
    return Source(v.b.select(place.single, elsewhere, x), place.column, place.single, one)


def _row_of_f32(
    v: Vector, step: Step, columns: Any, y: Any, sources: Sequence[Source], numbers: Sequence[Any], varied: bool
) -> None:
    def apply(w: Vector, i: Any, mask: Any) -> None:
        values = [source.load(w, "f32", i, mask, False, varied) for source in sources]
        result = emit_chain(w, step.chain, _operands(w, step, values, numbers))
        w.store(result, w.at(w.b.bitcast(y, F32.as_pointer()), i), mask)

    each(v, I64(0), columns, apply, 1 if varied else UNROLL)


def _operands(v: Vector, step: Step, values: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
    """The chain's operands in their order."""
    tensors, rest = iter(values), iter(numbers)
    return [v.splat(next(rest)) if kind == NUMBER else next(tensors) for kind in step.elements]


def _row(
    v: Vector, step: Step, columns: Any, y: Any, sources: Sequence[Source], numbers: Sequence[Any], varied: bool,
    limits: str,
) -> None:  # fmt: skip
    """A row where elements are converted as they are loaded or stored, held between limits as said in Rounding."""
    b, out, rounding = v.b, step.out, None
    kinds = [kind for kind in step.elements if kind != NUMBER]
    if out == "bool":
        rounding = Rounding("u8", I64(0), I64(0), I64(1), "type")
    elif out != "f32":
        zero, low, high = (b.fptosi(x, I64) for x in numbers[-3:])
        rounding = Rounding(out, zero, low, high, limits)
    # Dealing costs less than shuffling where any bytes can be shuffled, but all that has lanes must be dealt.
    dealt = v.tier.lanes > 4 and all(kind in BYTES for kind in (out, *kinds))
    # With masked stores one block is faster than several vectors; it reads bytes over the end, but no more.
    wide = v.tier.lanes == 16 and all(kind in BYTES | {"f32"} for kind in kinds)

    def apply(w: Vector, i: Any, rest: Any = None) -> None:
        deal = dealt and w.lanes > v.lanes
        mask = None if rest is None else w.mask(rest)

        pairs = zip(sources, kinds, strict=True)
        values = [source.load(w, kind, i, mask, deal, varied) for source, kind in pairs]
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
