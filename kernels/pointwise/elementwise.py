"""The elementwise kernel: a chain over tensors that are broadcast against each other.

Record: y, cols, rows, d2, d1, d0, then y's element strides of rows, d2, d1, d0, then for each input its
address and its four strides. `elementwise_shape.loops` makes it from shapes. y may be the same memory as an
input that it walks in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..isa.loops import divide, loop, remainder, share, slice_share, smaller
from ..isa.tiers import Tier
from ..isa.vector import F32, I64, Vector, arg, emits
from ..isa.walk import each
from .chain import Chain, emit_chain

_Y, _X = 6, 10
"""Where in the record the strides of y and the inputs begin."""

Row = Callable[[list[Any], Any, Any, Any], None]
"""Writes columns left..right of one row: row(pointers to the inputs, pointer to y, left, right)."""
Prepare = Callable[[Vector, Callable[[int], Any]], Row]
"""What is done before the rows; gets a function that loads a slot of the record, counted after the inputs."""


def make(tier: Tier, chain: Chain, kinds: tuple[str, ...]) -> Callable[..., None]:
    """The kernel for a chain over inputs that are a "vector" or a "scalar" along columns."""

    def prepare(v: Vector, word: Callable[[int], Any]) -> Row:
        return lambda xs, y, left, right: _row(v, chain, kinds, xs, y, left, right)

    return over_rows(tier, [F32] * (len(kinds) + 1), prepare)


def over_rows(tier: Tier, elements: Sequence[Any], prepare: Prepare) -> Callable[..., None]:
    """The kernel that walks rows; `elements` are the LLVM types of y's elements and of each input's."""
    block = _block(tier, elements, prepare)

    def elementwise(args: int, thread: int, threads: int) -> None:
        cols, rows, d2, d1, d0 = arg(args, 1), arg(args, 2), arg(args, 3), arg(args, 4), arg(args, 5)
        total = rows * d2 * d1 * d0
        first, last, left, right = 0, total, 0, cols
        if total >= 4 * threads:
            first, last = share(total, thread, threads), share(total, thread + 1, threads)
        else:
            left, right = slice_share(cols, thread, threads), slice_share(cols, thread + 1, threads)
        while first < last and left < right:
            outer, row = divide(first, rows), remainder(first, rows)
            count = smaller(rows - row, last - first)
            plane, i2 = divide(outer, d2), remainder(outer, d2)
            block(args, divide(plane, d1), remainder(plane, d1), i2, row, count, left, right)
            first += count

    return elementwise


def _block(tier: Tier, elements: Sequence[Any], prepare: Prepare) -> Any:
    """An intrinsic that runs `count` rows from `row` on, at one place of the outer dimensions."""
    inputs = range(len(elements) - 1)

    @emits
    def block(
        b: Any, args: Any, i0: Any, i1: Any, i2: Any, row: Any, count: Any, left: Any, right: Any
    ) -> None:
        v = Vector(b, tier)
        record = v.pointer(args, I64)

        def word(i: int) -> Any:
            return b.load(v.at(record, i))

        def start(address: int, strides: int, element: Any) -> Any:
            offset = b.add(b.mul(row, word(strides)), b.mul(i2, word(strides + 1)))
            offset = b.add(offset, b.add(b.mul(i1, word(strides + 2)), b.mul(i0, word(strides + 3))))
            return v.at(v.pointer(word(address), element), offset)

        write = prepare(v, lambda i: word(_X + 5 * len(inputs) + i))
        y, y_row = start(0, _Y, elements[0]), word(_Y)
        xs = [start(_X + 5 * i, _X + 5 * i + 1, elements[i + 1]) for i in inputs]
        x_rows = [word(_X + 5 * i + 1) for i in inputs]
        with loop(b, 0, count, 1) as r:
            at = [v.at(x, b.mul(r, step)) for x, step in zip(xs, x_rows, strict=True)]
            write(at, v.at(y, b.mul(r, y_row)), left, right)

    return block


def _row(
    v: Vector, chain: Chain, kinds: tuple[str, ...], xs: list[Any], y: Any, left: Any, right: Any
) -> None:
    """Columns left..right of one row."""
    sources = [(x, None if kind == "vector" else v.b.load(x)) for x, kind in zip(xs, kinds, strict=True)]

    def apply(w: Vector, i: Any, mask: Any) -> None:
        values = [w.load(w.at(x, i), mask) if s is None else w.splat(s) for x, s in sources]
        w.store(emit_chain(w, chain, values), w.at(y, i), mask)

    each(v, left, right, apply)
