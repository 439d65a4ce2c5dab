"""The product of matrices of whole numbers, which wrap around, or of f64: dense, some rows and columns at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ..core.record import loaded, reader
from ..isa.byte_ops import read, write
from ..isa.loops import div_rem, loop, smaller, thread_range, variable, whole
from ..isa.tiers import Tier
from ..isa.vector import I32, I64, emits
from .convert import TYPES
from .exact_names import ELEMENTS
from .rows import PRODUCT

ROWS = 4
"""Rows of results that are held at a time, with two registers of columns."""


def make(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel of y[i] = a[i] b[i]; its record is PRODUCT."""
    fields, size = reader(PRODUCT), ELEMENTS[element]

    @emits
    def block(b: Any, args: Any, batch: Any, first: Any, end: Any) -> None:
        r = loaded(b, args, PRODUCT)
        a, other = (b.add(at, b.mul(batch, step)) for at, step in ((r.a, r.a_batch), (r.b, r.b_batch)))
        y = b.add(r.y, b.mul(batch, b.mul(b.mul(r.m, r.n), I64(size))))
        start = first
        for rows in (ROWS, 1):
            stop = b.add(start, whole(b, b.sub(end, start), rows))
            with loop(b, start, stop, rows) as i:
                left = I64(0)
                for lanes in (8 * tier.lanes // size, 1):
                    right = b.add(left, whole(b, b.sub(r.n, left), lanes))
                    kind = ir.VectorType(TYPES[element], lanes)
                    with loop(b, left, right, lanes) as j:
                        _tile(b, r, (a, other, y), i, j, rows, kind, size, tier.fma)
                    left = right
            start = stop

    def product(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        first, end = thread_range(r.batch * r.m, thread, threads)
        while first < end:
            batch, row = div_rem(first, r.m)
            count = smaller(r.m - row, end - first)
            block(args, batch, row, row + count)
            first += count

    return product


def _tile(
    b: Any, r: Any, places: tuple[Any, Any, Any], i: Any, j: Any, rows: int, kind: Any, size: int, fused: bool
) -> None:
    """rows x lanes results from row i and column j on."""
    a, other, y = places
    sums = [variable(b, ir.Constant(kind, None)) for _ in range(rows)]

    def at(start: Any, row: Any, width: Any, column: Any) -> Any:
        return b.add(start, b.mul(b.add(b.mul(row, width), column), I64(size)))

    with loop(b, 0, r.k, 1) as p:
        column = read(b, at(other, p, r.n, j), kind)
        for row, total in enumerate(sums):
            one = read(b, at(a, b.add(i, I64(row)), r.k, p), kind.element)
            one = b.insert_element(ir.Constant(kind, ir.Undefined), one, I32(0))
            one = b.shuffle_vector(one, one, ir.Constant(ir.VectorType(I32, kind.count), None))
            b.store(_added(b, fused, one, column, b.load(total)), total)
    for row, total in enumerate(sums):
        write(b, b.load(total), at(y, b.add(i, I64(row)), r.n, j))


def _added(b: Any, fused: bool, x: Any, y: Any, total: Any) -> Any:
    """total + x * y."""
    kind = total.type
    if isinstance(kind.element, ir.IntType):
        return b.add(total, b.mul(x, y))
    if not fused:
        return b.fadd(total, b.fmul(x, y))
    name = f"llvm.fma.v{kind.count}f{64 if kind.element == ir.DoubleType() else 32}"
    known = b.module.globals.get(name)
    return b.call(known or ir.Function(b.module, ir.FunctionType(kind, [kind] * 3), name), [x, y, total])
