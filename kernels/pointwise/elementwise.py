"""The elementwise kernel: a chain over tensors that are broadcast against each other, walked plane by plane."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ..core.record import Record, loaded, reader
from ..isa.loops import div_rem, loop, smaller, thread_block
from ..isa.tiers import Tier
from ..isa.vector import Vector, emits
from .epilogue import walk
from .rows import ELEMENTWISE, LOOPS, OPERAND

Row = Callable[[list[Any], Any, Any, Any], None]
"""Writes columns left..right of one row: row(pointers to the inputs, pointer to y, left, right)."""
Prepare = Callable[[Vector, Callable[[Record], Any]], Row]
"""What is done before the rows; gets a function that loads a record from behind the inputs."""


def make(tier: Tier) -> Callable[..., None]:
    """The kernel; its record is ELEMENTWISE."""

    @emits
    def plane(b: Any, args: Any, i0: Any, i1: Any, i2: Any, row: Any, count: Any, left: Any, right: Any) -> None:
        r = loaded(b, args, ELEMENTWISE)
        steps = zip((row, i2, i1, i0), (r.y_row, r.y_d2, r.y_d1, r.y_d0), strict=True)
        first = reduce(b.add, [b.mul(i, step) for i, step in steps], left)
        y, y_row = b.add(r.y, b.mul(first, r.item)), b.mul(r.y_row, r.item)
        walk(b, r, i2, row, left, count, b.sub(right, left), 0, 0, y, y_row, i0, i1)

    return over_planes(plane)


def over_planes(plane: Any) -> Callable[..., None]:
    """The kernel that calls plane(args, i0, i1, i2, row, count, left, right) for the thread's part of LOOPS."""
    fields = reader(LOOPS)

    def elementwise(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        first, end, left, right = thread_block(r.rows * r.d2 * r.d1 * r.d0, r.cols, thread, threads)
        while first < end and left < right:
            outer, row = div_rem(first, r.rows)
            count = smaller(r.rows - row, end - first)
            lines, i2 = div_rem(outer, r.d2)
            i0, i1 = div_rem(lines, r.d1)
            plane(args, i0, i1, i2, row, count, left, right)
            first += count

    return elementwise


def over_rows(tier: Tier, elements: Sequence[Any], prepare: Prepare) -> Callable[..., None]:
    """The kernel that walks rows; `elements` are the LLVM types of y's elements and of each input's."""
    behind = [len(LOOPS) + len(OPERAND) * i for i in range(len(elements))]

    @emits
    def block(b: Any, args: Any, i0: Any, i1: Any, i2: Any, row: Any, count: Any, left: Any, right: Any) -> None:
        v = Vector(b, tier)

        def start(address: Any, steps: Sequence[Any], element: Any) -> Any:
            offsets = [b.mul(i, step) for i, step in zip((row, i2, i1, i0), steps, strict=True)]
            return v.at(v.pointer(address, element), reduce(b.add, offsets))

        write = prepare(v, lambda record: loaded(b, args, record, behind[-1]))
        out = loaded(b, args, LOOPS)
        y = start(out.y, (out.y_row, out.y_d2, out.y_d1, out.y_d0), elements[0])
        operands = [loaded(b, args, OPERAND, first) for first in behind[:-1]]
        xs = [start(o.x, (o.row, o.d2, o.d1, o.d0), kind) for o, kind in zip(operands, elements[1:], strict=True)]
        with loop(b, 0, count, 1) as r:
            at = [v.at(x, b.mul(r, o.row)) for x, o in zip(xs, operands, strict=True)]
            write(at, v.at(y, b.mul(r, out.y_row)), left, right)

    return over_planes(block)
