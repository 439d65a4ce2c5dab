"""The kernel `exact`: one operation on tensors of one element type that are broadcast against each other.

Whole vectors of a row are computed in place. The tail of a row, and an operand with one number per row, are copied to a
buffer of a whole vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..core.record import fields
from ..isa.byte_ops import copy_run
from ..isa.tiers import Tier
from ..lang import Value, cases, choose, divide, outlined, over, register, room, traced, when, whole
from ..lang.types import F16, F32, I64, U8, Type, named
from . import exact_real, exact_whole, exact_wide
from .convert import halved, held, widened
from .elementwise import over_planes, products
from .exact_names import arity, is_truth, operations
from .rows import EXACT


class Operand(NamedTuple):
    """A row of an operand."""

    kind: Type
    """The vector type of its elements in memory."""
    at: Value
    """Its address."""
    column: Value
    """Bytes from element to element; 0 where the row has one number."""


def make(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel for an element type; its record is EXACT."""
    number = named(element)
    kind = held(number).vector(8 * tier.lanes // (F32 if number is F16 else number).size)
    kinds = {"a": kind, "b": kind, "c": U8.like(kind)}

    @traced
    def plane(args: Value, outer: Any, rows: Any, columns: Any) -> None:
        r, (row, count), (left, right) = fields(args, EXACT), rows, columns

        def start(address: Value, *strides: Value) -> Value:
            return sum(products((*outer, row, left), strides), start=address)

        y_row = r.y_row * r.item
        y = start(r.y, *(stride * r.item for stride in (r.y_d0, r.y_d1, r.y_d2, r.y_row, 1)))
        operands = []
        for name, each in kinds.items():
            strides = [getattr(r, f"{name}_{dim}") for dim in ("d0", "d1", "d2", "row", "column")]
            operands.append((each, start(getattr(r, name), *strides), *strides[-2:]))
        for i in over(count):
            xs = [Operand(each, at + i * step, column) for each, at, step, column in operands]
            _row(element, r, y + i * y_row, xs, right - left)

    return over_planes(plane)


def _row(element: str, r: Any, y: Value, xs: Sequence[Operand], n: Value) -> None:
    kind = xs[0].kind
    many = whole(n, kind.lanes)
    rest = n - many
    run = partial(outlined, "run", None, partial(_run, element, [x.kind for x in xs]), r.operation)
    places, steps = [], []
    for x in xs:
        place = register(x.at)
        with when(x.column == 0):
            place.value = _repeated(x)
        places.append(place.value)
        steps.append(x.column * kind.lanes)
    run(y, *places, *steps, r.item * kind.lanes, divide(many, kind.lanes))
    with when(rest > 0):
        ends = []
        for x, place in zip(xs, places, strict=True):
            own, end = room(x.kind).address, register(place)
            with when(x.column != 0):
                copy_run(own, place + many * x.column, rest * x.column)
                end.value = own
            ends.append(end.value)
        own = room(kind).address
        run(own, *ends, *[I64(0)] * 4, I64(1))
        copy_run(y + many * r.item, own, rest * r.item)


def _repeated(x: Operand) -> Value:
    """The address of a vector that repeats an operand's one number; of zeros where the operand's address is 0."""
    number = x.kind.number
    zero, copies = room(number), room(x.kind)
    zero[0] = 0
    nothing = zero.address
    copies[0] = x.kind(number[choose(x.at == 0, nothing, x.at)])
    return copies.address


def _run(element: str, kinds: Sequence[Type], operation: Value, *numbers: Value) -> None:
    """A function that computes whole vectors: y, a, b, c, then the bytes from vector to vector of a, b, c, y, then
    their number."""
    y, *places = numbers[:4]
    *steps, y_step, count = numbers[4:]

    def vectors(name: str) -> None:
        for i in over(count):
            xs = [kind[place + i * step] for kind, place, step in zip(kinds, places, steps, strict=True)]
            result, to = _computed(element, name, *xs), y + i * y_step
            if is_truth(name):
                kinds[2][to] = result.to(U8)
            else:
                kinds[0][to] = result

    cases(operation, {i: partial(vectors, name) for i, name in enumerate(operations(element))})


def _computed(element: str, name: str, x: Value, y: Value, flags: Value) -> Value:
    """An operation on vectors in the form that they have in memory; so is its result, unless it is a mask."""
    if name == "where":
        return choose(flags != 0, x, y)
    xs = [x, y][: arity(name)]
    if element[0] == "i":
        xs = [each.unsigned if name.endswith("_u") else each for each in xs]
        result = exact_whole.OPERATIONS[name.removesuffix("_u")](*xs)
        return result if is_truth(name) else result.signed
    if element == "f16":
        result = exact_real.OPERATIONS[name](*map(widened, xs))
        return halved(result) if result.type.real else result
    wide = exact_wide.OPERATIONS if element == "f64" else {}
    return (exact_real.OPERATIONS | wide)[name](*xs)
