"""A step of a walked chain: an operation on rows x columns of values with any strides."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

from ..core.record import fields
from ..isa.elements import BYTES, ELEMENTS, LIMITS, Rounding, load, load_dealt, load_one
from ..isa.integer import has_inverse, whole_quotient
from ..isa.stores import store_first
from ..isa.tiers import Tier
from ..lang import BIT, F32, I64, U8, Type, Value, along, cover, either, over, register, room, tier, traced, when
from ..lang.instructions import choose, larger, smaller
from ..lang.lanes import shuffle
from ..lang.lines import UNROLL
from .chain import emit_chain
from .rows import VALUE
from .steps import NUMBER, ROUNDED, STEPS, Step

FAR = 1 << 20
"""Quotients beyond it are as far away as all that are not stored."""


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
    kinds = [*step.elements, *[NUMBER] * 3] if step.out in ROUNDED else step.elements

    @traced
    def block(named: Value, values: Value) -> None:
        words, head = I64.at(named), I64.at(values)
        rows, columns = head[0], head[1]
        y, *places = [fields(values + words[i], VALUE) for i in range(1 + step.arity)]
        numbers = [F32[p.address] for p, kind in zip(places, kinds, strict=True) if kind == NUMBER]
        tensors = [_repeated(tier, rows, p, kind) for p, kind in zip(places, kinds, strict=True) if kind != NUMBER]
        # Rows that lie behind one another are one.
        whole = reduce(operator.and_, [p.row == columns * p.column for p in (y, *tensors)], BIT(1))
        columns = choose(whole, rows * columns, columns)
        rows = choose(whole, 1, rows)
        rows = choose(columns > 0, rows, 0)
        one = Rows(step, tier, rows, columns, (y, *tensors), numbers, head.bits(U8))
        if step.chain == (("div", 0, 1),) and step.out in BYTES:
            with either(has_inverse(numbers[0])) as (usual, extreme):
                with usual:
                    _any_length(replace(one, inverse=1.0 / numbers[0]))
                with extreme:
                    _run(one, varied=True)
            return
        if not (tier.masks and _is_real(step)):
            _any_length(one)
            return
        with either(columns <= tier.lanes) as (short, long):
            with short:
                _run(one, varied=True, short=True)
            with long:
                _any_length(one)

    return block


@dataclass(frozen=True)
class Rows:
    """Rows of a step: their columns, the places of the result and of tensors, and operands that are numbers. elsewhere:
    as of `_source`.
    """

    step: Step
    tier: Tier
    rows: Value
    columns: Value
    places: Sequence[Any]
    numbers: Sequence[Value]
    elsewhere: Value
    inverse: Value | None = None
    """1 / the number that the step divides by, where `has_inverse` says so of it."""

    @property
    def limits(self) -> str:
        """How Rounding clamps the results."""
        return "any" if self.inverse is None and not self.step.bounded else "bounds"

    @property
    def f32(self) -> Type:
        return F32.vector(self.tier.lanes)

    @property
    def kinds(self) -> list[str]:
        """The element types of the operands that are tensors."""
        return [kind for kind in self.step.elements if kind != NUMBER]

    def result(self, f32: Type, values: Sequence[Value]) -> Value:
        """The step's chain applied to vectors of its tensors."""
        if self.inverse is not None:
            y = f32(self.numbers[0])
            far = y * FAR
            return whole_quotient(smaller(larger(values[0], -far), far), y, f32(self.inverse))
        tensors, numbers = iter(values), iter(self.numbers)
        operands = [f32(next(numbers)) if kind == NUMBER else next(tensors) for kind in self.step.elements]
        return emit_chain(f32, self.step.chain, operands)


def _run(one: Rows, varied: bool, limits: str | None = None, short: bool = False) -> None:
    """Compute all rows; short: of a vector of reals at most."""
    mask = one.f32.below(one.columns) if short else None
    for r in over(one.rows):
        at, *xs = (U8.at(p.address) + r * p.row for p in one.places)
        sources = [_source(*each, one.elsewhere) for each in zip(one.places[1:], xs, one.kinds, strict=True)]
        if short:
            _real_vector(one, at, sources, one.f32, 0, mask, varied)
        elif _is_real(one.step):
            _row_of_reals(one, at, sources, varied)
        else:
            _row(one, at, sources, varied, limits or one.limits)


def _any_length(one: Rows) -> None:
    with either(reduce(operator.or_, [p.single for p in one.places[1:]])) as (then, otherwise):
        with then:
            _run(one, varied=True)
        with otherwise:
            if not one.step.bounded:
                _run(one, varied=False)
                return
            with either(_unlimited(one.step.out, *one.numbers[-2:])) as (no_limits, limits):
                with no_limits:
                    _run(one, varied=False, limits="type")
                with limits:
                    _run(one, varied=False)


def _is_real(step: Step) -> bool:
    return {step.out, *step.elements} <= {"f32", "bf16", NUMBER}


def _unlimited(out: str, low: Value, high: Value) -> Value:
    """Whether the result's limits are those of its type, so that no clamp is needed."""
    least, most = LIMITS[out]
    return (low == least) & (high == most)


class Operand(NamedTuple):
    """A tensor's VALUE. single: it has one number for each row."""

    address: Value
    row: Value
    column: Value
    single: Value


def _repeated(tier: Tier, rows: Value, place: Any, kind: str) -> Operand:
    """The operand at `place`; of one number for all rows there are as many as are read at once."""
    element, address = ELEMENTS[kind], register(place.address)
    number = place.column == 0
    same = (place.row == 0) | (rows == 1)
    with when(number & same):
        vector = element.vector(UNROLL * tier.lanes)
        first = vector.undefined().with_lane(0, element[place.address])
        copies = room(vector)
        copies[0] = shuffle(first, [0] * vector.lanes, first)
        address.value = copies.address
    return Operand(address.value, choose(same, 0, place.row), place.column, number & ~same)


class Source(NamedTuple):
    """A row of an operand: where it is read, and the bytes from column to column; one number if that is 0."""

    start: Value
    column: Value
    single: Value
    one: Value

    def load(self, f32: Type, kind: str, i: Value, mask: Any, dealt: bool, varied: bool) -> Value:
        """The f32 from column i on; `varied` unless it is known that the operand is not single."""
        place = (self.start + i * self.column).bits(ELEMENTS[kind])
        x = load_dealt(f32, kind, place) if dealt else load(f32, kind, place, mask)
        return choose(BIT.like(f32)(self.single), self.one, x) if varied else x


def _source(place: Operand, x: Value, kind: str, elsewhere: Value) -> Source:
    """The row of an operand. elsewhere: readable memory for vectors whose values are not used."""
    one = load_one(kind, x.bits(ELEMENTS[kind]))
    return Source(choose(place.single, elsewhere, x), place.column, place.single, one)


def _row_of_reals(rows: Rows, y: Value, sources: Sequence[Source], varied: bool) -> None:
    for f32, i, mask in along(rows.f32, 0, rows.columns, 1 if varied else UNROLL):
        _real_vector(rows, y, sources, f32, i, mask, varied)


def _real_vector(rows: Rows, y: Value, sources: Sequence[Source], f32: Type, i: Any, mask: Any, varied: bool) -> None:
    """Compute the elements from column i on that a vector of the type spans."""
    out = ELEMENTS[rows.step.out]
    values = [source.load(f32, kind, i, mask, False, varied) for source, kind in zip(sources, rows.kinds, strict=True)]
    out.like(f32)[y.bits(out) + i, mask] = rows.result(f32, values).to(out)


def _row(rows: Rows, y: Value, sources: Sequence[Source], varied: bool, limits: str) -> None:
    """Compute a row whose elements are converted as they are loaded or stored, and clamped as Rounding says."""
    out, kinds, tier, rounding = rows.step.out, rows.kinds, rows.tier, None
    if out == "bool":
        rounding = Rounding("u8", I64(0), I64(0), I64(1), "type")
    elif out != "f32":
        zero, low, high = (x.to(I64) for x in rows.numbers[-3:])
        rounding = Rounding(out, zero, low, high, limits)
    # Dealing costs less than shuffling where any bytes can be shuffled, but all that has lanes must be dealt.
    dealt = tier.byte_shuffle and all(kind in BYTES for kind in (out, *kinds))
    # With masked stores one block is faster than several vectors; it reads bytes over the end, but no more.
    wide = tier.masks and all(kind in BYTES | {"f32"} for kind in kinds)

    def apply(f32: Type, i: Value, rest: Any = None) -> None:
        deal = dealt and f32.lanes > tier.lanes
        mask = None if rest is None else f32.below(rest)
        pairs = zip(sources, kinds, strict=True)
        values = [source.load(f32, kind, i, mask, deal, varied) for source, kind in pairs]
        result = rows.result(f32, values)
        place = y.bits(ELEMENTS[out]) + i
        if rounding is None:
            f32[place, mask] = result
        else:
            _round(rounding, out, result, place, deal, rest)

    cover(rows.f32, I64(0), rows.columns, wide, apply)


def _round(rounding: Rounding, out: str, x: Value, place: Value, dealt: bool, rest: Any) -> None:
    f32 = x.type
    if out == "bool":
        x = choose(x != 0, f32(1), 0)
    four = f32.lanes > tier().lanes and out in BYTES
    store_first(rounding.packed(x, dealt) if four else rounding.narrow(x), place, rest)
