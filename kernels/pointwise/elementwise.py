"""The elementwise kernel: a chain over tensors that are broadcast against each other.

The record is LOOPS, then OPERAND for each input. y may be the same memory as an input that it walks in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ..core.record import Record, loaded, reader
from ..isa.loops import div_rem, each, loop, smaller, thread_block
from ..isa.tiers import Tier
from ..isa.vector import F32, Vector, emits
from .chain import Chain, emit_chain
from .rows import LOOPS, OPERAND

Row = Callable[[list[Any], Any, Any, Any], None]
"""Writes columns left..right of one row: row(pointers to the inputs, pointer to y, left, right)."""
Prepare = Callable[[Vector, Callable[[Record], Any]], Row]
"""What is done before the rows; gets a function that loads a record from behind the inputs."""


def make(tier: Tier, chain: Chain, kinds: tuple[str, ...]) -> Callable[..., None]:
    """The kernel for a chain over inputs that are a "vector" or a "scalar" along columns."""

    def prepare(v: Vector, _: Any) -> Row:
        return lambda xs, y, left, right: _row(v, chain, kinds, xs, y, left, right)

    return over_rows(tier, [F32] * (len(kinds) + 1), prepare)


def over_rows(tier: Tier, elements: Sequence[Any], prepare: Prepare) -> Callable[..., None]:
    """The kernel that walks rows; `elements` are the LLVM types of y's elements and of each input's."""
    fields, block = reader(LOOPS), _block(tier, elements, prepare)

    def elementwise(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        first, end, left, right = thread_block(r.rows * r.d2 * r.d1 * r.d0, r.cols, thread, threads)
        while first < end and left < right:
            outer, row = div_rem(first, r.rows)
            count = smaller(r.rows - row, end - first)
            plane, i2 = div_rem(outer, r.d2)
            i0, i1 = div_rem(plane, r.d1)
            block(args, i0, i1, i2, row, count, left, right)
            first += count

    return elementwise


def _block(tier: Tier, elements: Sequence[Any], prepare: Prepare) -> Any:
    """An intrinsic that runs `count` rows from `row` on, at one place of the outer dimensions."""
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

    return block


def _row(v: Vector, chain: Chain, kinds: tuple[str, ...], xs: list[Any], y: Any, left: Any, right: Any) -> None:
    """Columns left..right of one row."""
    sources = [(x, None if kind == "vector" else v.b.load(x)) for x, kind in zip(xs, kinds, strict=True)]

    def apply(w: Vector, i: Any, mask: Any) -> None:
        values = [w.load(w.at(x, i), mask) if s is None else w.splat(s) for x, s in sources]
        w.store(emit_chain(w, chain, values), w.at(y, i), mask)

    each(v, left, right, apply)
