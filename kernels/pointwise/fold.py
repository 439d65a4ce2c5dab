"""Kernels along an axis of [outer, n, inner] for whole numbers and floats of 4 and 8 bytes: all elements as one, the
place of the largest or smallest, and running sums and products.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from ..core.record import Record, fields, reader
from ..isa import functions as f
from ..isa.tiers import Tier
from ..lang import (
    F32,
    F64,
    I32,
    I64,
    Type,
    Value,
    cases,
    choose,
    either,
    integer,
    is_nan,
    larger,
    over,
    register,
    room,
    smaller,
    thread_block,
    traced,
    whole,
)
from .rows import ARG, ARGS, FOLD, FOLDS, RUNNING, RUNS

_NUMBERS = {"i32": I32, "i64": I64, "f32": F32, "f64": F64}


class Plane(NamedTuple):
    """[n, inner] elements of so many bytes, from an address on."""

    start: Value
    inner: Value
    size: int

    def at(self, row: Any, column: Value) -> Value:
        """The address of an element."""
        return self.start + (row * self.inner + column) * self.size


Part = Callable[[Any, str, Value, Value, Value], None]
"""part(record, operation, o, left, right) makes columns left..right of plane o."""


def fold(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel of FOLDS; its record is FOLD. Over nothing a sum is 0, a product 1, an extreme that of the type."""

    def part(r: Any, name: str, o: Value, left: Value, right: Value) -> None:
        kind = _vector(tier, element, name)
        x, y = _reduced(r, o, kind.number.size, kind.number.size)
        with either(r.inner == 1) as (row, columns):
            with row:
                _fold_row(kind, name, x.start, y.start, r.n)
            with columns:
                for v, i in _columns(kind, left, right):
                    total, combine = register(v(_start(v, name))), _combine(v, name)
                    for j in over(r.n):
                        total.value = combine(total.value, v[x.at(j, i)])
                    v[y.at(0, i)] = total.value

    return _along(FOLD, FOLDS, part)


def arg(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel of ARGS: y are int64; its record is ARG. A NaN counts as the largest and as the smallest."""

    def part(r: Any, name: str, o: Value, left: Value, right: Value) -> None:
        kind = _vector(tier, element, name)
        x, y = _reduced(r, o, kind.number.size, 8)
        for v, i in _columns(kind, left, right):
            best, place = register(v[x.at(0, i)]), register(I64.like(v)(0))
            for row in over(1, r.n):
                now, before = v[x.at(row, i)], best.value
                better = _better(name, now, before)
                best.value = choose(better, now, before)
                place.value = choose(better, row, place.value)
            I64.like(v)[y.at(0, i)] = place.value

    return _along(ARG, ARGS, part)


def running(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel of RUNS: as many results as elements; its record is RUNNING."""

    def part(r: Any, name: str, o: Value, left: Value, right: Value) -> None:
        kind = _vector(tier, element, name)
        size, combine = kind.number.size, _combine(kind, name)
        start = o * (r.n * (r.inner * size))
        x, y = (Plane(address + start, r.inner, size) for address in (r.x, r.y))
        for v, i in _columns(kind, left, right):
            total = register(v(_start(v, name)))
            for turn in over(r.n):
                row = choose(r.reverse != 0, r.n - turn - 1, turn)
                before = total.value
                after = combine(before, v[x.at(row, i)])
                v[y.at(row, i)] = choose(r.exclusive != 0, before, after)
                total.value = after

    return _along(RUNNING, RUNS, part)


def _along(record: Record, names: tuple[str, ...], part: Part) -> Callable[..., None]:
    """The kernel that calls `part` for each plane, or some of the columns of all, that are the thread's."""
    read = reader(record)

    @traced
    def parts(args: Value, first: Any, end: Any, left: Any, right: Any) -> None:
        r = fields(args, record)

        def each(name: str) -> None:
            for o in over(first, end):
                part(r, name, o, left, right)

        cases(r.operation, {i: partial(each, name) for i, name in enumerate(names)})

    def kernel(args, thread, threads):
        r = read(args)
        first, end, left, right = thread_block(r.outer, r.inner, thread, threads)
        parts(args, first, end, left, right)

    return kernel


def _reduced(r: Any, o: Value, x_size: int, y_size: int) -> tuple[Plane, Plane]:
    """x[o], and y[o], which has one row."""
    first = o * r.inner
    return Plane(r.x + first * r.n * x_size, r.inner, x_size), Plane(r.y + first * y_size, r.inner, y_size)


def _vector(tier: Tier, element: str, name: str) -> Type:
    """Two registers of what an operation takes elements for."""
    number = _NUMBERS[element]
    if name.endswith("_u") and not number.real:
        number = integer(number.bits, signed=False)
    return number.vector(8 * tier.lanes // number.size)


def _columns(kind: Type, left: Value, right: Value) -> Iterator[tuple[Type, Value]]:
    """`for v, i in _columns(...)`: vectors of columns, then single ones."""
    for v in (kind, kind.vector(1)):
        end = left + whole(right - left, v.lanes)
        for i in over(left, end, v.lanes):
            yield v, i
        left = end


def _start(kind: Type, name: str) -> float:
    """What a fold begins with."""
    if name in ("sum", "prod"):
        return int(name == "prod")
    if kind.real:
        return -math.inf if name.startswith("max") else math.inf
    least = -1 << kind.bits - 1 if kind.signed else 0
    return least if name.startswith("max") else ~least


def _combine(kind: Type, name: str) -> Callable[[Value, Value], Value]:
    """What makes one of two; NaN where one is."""
    extremes = (f.maximum, f.minimum) if kind.real else (larger, smaller)
    rules = (operator.add, operator.mul, *extremes)
    return dict(zip(("sum", "prod", "max", "min"), rules, strict=True))[name.removesuffix("_u")]


def _fold_row(kind: Type, name: str, x: Value, y: Value, n: Value) -> None:
    """Neighbors: lane by lane, then the lanes, then what is left."""
    one, size, combine = kind.vector(1), kind.number.size, _combine(kind, name)
    lanes, total = room(kind, align=kind.size), register(one(_start(kind, name)))
    lanes[0] = kind(_start(kind, name))
    end = whole(n, kind.lanes)
    for i in over(0, end, kind.lanes):
        lanes[0] = combine(lanes[0], kind[x + i * size])
    for start, stop, place in ((0, kind.lanes, lanes.address), (end, n, x)):
        for i in over(start, stop):
            total.value = combine(total.value, one[place + i * size])
    one[y] = total.value


def _better(name: str, now: Value, before: Value) -> Value:
    """Whether an element takes the place of the best before it. Nothing is better than a NaN but a later one, for
    `..._last`.
    """
    largest, last = name.startswith("max"), "last" in name
    if not now.type.real:
        return (now >= before if last else now > before) if largest else (now <= before if last else now < before)
    worse = (now < before if last else now <= before) if largest else (now > before if last else now >= before)
    better = ~worse & ~is_nan(before)
    return better | is_nan(now) if last else better
