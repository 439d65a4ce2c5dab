"""The elementwise kernel: a chain over tensors that are broadcast against each other, walked plane by plane."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import Type, Value, div_rem, over, smaller, thread_block, traced
from .epilogue import Area, Lines, walk
from .rows import ELEMENTWISE, LOOPS, UNARY

Row = Callable[[Value, Value, Value, Value], None]
"""Writes columns left..right of one row: row(pointer to x, pointer to y, left, right)."""


def products(places: Sequence[Value], strides: Sequence[Value]) -> list[Value]:
    """Indices times strides: the offsets along each axis."""
    return [place * stride for place, stride in zip(places, strides, strict=True)]


def make(tier: Tier) -> Callable[..., None]:
    """The kernel; its record is ELEMENTWISE."""

    @traced
    def plane(args: Value, outer: Any, rows: Any, columns: Any) -> None:
        r = fields(args, ELEMENTWISE)
        (i0, i1, i2), (row, count), (left, right) = outer, rows, columns
        first = reduce(operator.add, products((row, i2, i1, i0), (r.y_row, r.y_d2, r.y_d1, r.y_d0)), left)
        y = Lines(r.y + first * r.item, r.y_row * r.item)
        walk(r, Area(i2, row, left, count, right - left), Lines(0, 0), y, (i0, i1))

    return over_planes(plane)


def over_planes(plane: Any) -> Callable[..., None]:
    """The kernel that calls plane(args, (i0, i1, i2), (row, count), (left, right)) for the thread's part of LOOPS."""

    def elementwise(args, thread, threads):
        r = fields(args, LOOPS)
        first, end, left, right = thread_block(r.rows * r.d2 * r.d1 * r.d0, r.cols, thread, threads)
        while first < end and left < right:
            outer, row = div_rem(first, r.rows)
            count = smaller(r.rows - row, end - first)
            lines, i2 = div_rem(outer, r.d2)
            i0, i1 = div_rem(lines, r.d1)
            plane(args, (i0, i1, i2), (row, count), (left, right))
            first += count

    return elementwise


def over_rows(kind: Type, x_kind: Type, prepare: Callable[[Value], Row]) -> Callable[..., None]:
    """The kernel that walks rows of an input and of y; their elements' types. prepare(record): what is done before."""

    @traced
    def block(args: Value, outer: Any, rows: Any, columns: Any) -> None:
        (i0, i1, i2), (row, count), (left, right) = outer, rows, columns

        def start(address: Value, steps: Sequence[Value], element: Type) -> Value:
            return element.at(address) + reduce(operator.add, products((row, i2, i1, i0), steps))

        write, r = prepare(args), fields(args, UNARY)
        y = start(r.y, (r.y_row, r.y_d2, r.y_d1, r.y_d0), kind)
        x = start(r.x, (r.x_row, r.x_d2, r.x_d1, r.x_d0), x_kind)
        for i in over(count):
            write(x + i * r.x_row, y + i * r.y_row, left, right)

    return over_planes(block)
