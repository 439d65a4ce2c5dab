"""The kernel `exact`: one operation on tensors of one element type that are broadcast against each other.

Whole vectors of a row are computed where they lie. What is left of it, and the one number of a row that has no more,
are copied to where a vector is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from llvmlite import ir

from ..core.record import loaded
from ..isa.byte_ops import choose, copy_run, read, write
from ..isa.loops import loop, room, variable, whole
from ..isa.tiers import Tier
from ..isa.vector import I8, I32, I64, emits
from .convert import TYPES
from .elementwise import over_planes
from .exact_names import ELEMENTS, is_truth, operations
from .exact_real import Real
from .exact_whole import Whole
from .exact_wide import Wide
from .rows import EXACT

NAMES = ("a", "b", "c")


def make(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel for an element type; its record is EXACT."""
    computed = max(ELEMENTS[element], 4) if element[0] == "f" else ELEMENTS[element]
    kind, flags = (ir.VectorType(each, 8 * tier.lanes // computed) for each in (TYPES[element], I8))

    @emits
    def plane(b: Any, args: Any, i0: Any, i1: Any, i2: Any, row: Any, count: Any, left: Any, right: Any) -> None:
        r = loaded(b, args, EXACT)
        run = _function(b, element, kind, flags)

        def start(address: Any, *steps: Any) -> Any:
            offsets = [b.mul(i, step) for i, step in zip((i0, i1, i2, row, left), steps, strict=True)]
            return reduce(b.add, offsets, address)

        y_row = b.mul(r.y_row, r.item)
        y = start(r.y, *(b.mul(step, r.item) for step in (r.y_d0, r.y_d1, r.y_d2, r.y_row, I64(1))))
        places = []
        for name in NAMES:
            steps = [getattr(r, f"{name}_{dim}") for dim in ("d0", "d1", "d2", "row", "column")]
            places.append((start(getattr(r, name), *steps), *steps[-2:]))
        with loop(b, 0, count, 1) as i:
            operands = [(b.add(at, b.mul(i, step)), column) for at, step, column in places]
            _row(b, tier, run, r, b.add(y, b.mul(i, y_row)), operands, (kind, kind, flags), b.sub(right, left))

    return over_planes(plane)


def _row(
    b: Any, tier: Tier, run: Any, r: Any, y: Any, operands: Sequence[tuple[Any, Any]], kinds: Sequence[Any], n: Any
) -> None:
    """A row of n elements: operands are addresses, and bytes from column to column or 0."""
    lanes = kinds[0].count
    many = whole(b, n, lanes)
    rest = b.sub(n, many)
    places, steps = [], []
    for (at, column), kind in zip(operands, kinds, strict=True):
        place = variable(b, at)
        with b.if_then(b.icmp_signed("==", column, I64(0))):
            b.store(_repeated(b, at, kind), place)
        places.append(b.load(place))
        steps.append(b.mul(column, I64(lanes)))
    b.call(run, [r.operation, y, *places, *steps, b.mul(r.item, I64(lanes)), b.udiv(many, I64(lanes))])
    with b.if_then(b.icmp_signed(">", rest, I64(0))):
        ends = []
        for place, (_, column), kind in zip(places, operands, kinds, strict=True):
            own, end = b.ptrtoint(room(b, kind), I64), variable(b, place)
            with b.if_then(b.icmp_signed("!=", column, I64(0))):
                copy_run(b, tier, own, b.add(place, b.mul(many, column)), b.mul(rest, column))
                b.store(own, end)
            ends.append(b.load(end))
        own = b.ptrtoint(room(b, kinds[0]), I64)
        b.call(run, [r.operation, own, *ends, *[I64(0)] * 4, I64(1)])
        copy_run(b, tier, b.add(y, b.mul(many, r.item)), own, b.mul(rest, r.item))


def _repeated(b: Any, at: Any, kind: Any) -> Any:
    """Where the element at an address is repeated to a vector; at address 0 there is none, but a 0."""
    undef, copies = ir.Constant(kind, ir.Undefined), room(b, kind)
    nothing = b.ptrtoint(variable(b, kind.element(0)), I64)
    at = b.select(b.icmp_signed("==", at, I64(0)), nothing, at)
    one = b.insert_element(undef, read(b, at, kind.element), I32(0))
    b.store(b.shuffle_vector(one, undef, ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count)), copies)
    return b.ptrtoint(copies, I64)


def _function(b: Any, element: str, kind: Any, flags: Any) -> Any:
    """run(operation, y, a, b, c, a_step, b_step, c_step, y_step, count) computes whole vectors, bytes apart."""
    function = ir.Function(b.module, ir.FunctionType(ir.VoidType(), [I64] * 10), b.module.get_unique_name("run"))
    function.linkage = "internal"
    function.attributes.add("noinline")
    inside = ir.IRBuilder(function.append_basic_block())
    operation, y, *places = function.args[:5]
    *steps, y_step, count = function.args[5:]
    family = (Whole if element[0] == "i" else Wide if element == "f64" else Real)(inside, element, kind)

    def vectors(name: str) -> None:
        with loop(inside, 0, count, 1) as i:
            x, other, chosen = (
                read(inside, inside.add(at, inside.mul(i, step)), each)
                for at, step, each in zip(places, steps, (kind, kind, flags), strict=True)
            )
            result = family(name, x, other, chosen)
            to = inside.add(y, inside.mul(i, y_step))
            write(inside, inside.zext(result, flags) if is_truth(name) else result, to)

    choose(inside, operation, {i: partial(vectors, name) for i, name in enumerate(operations(element))})
    inside.ret_void()
    return function
