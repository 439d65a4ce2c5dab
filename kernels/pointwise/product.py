"""The dense product of matrices of whole numbers, which wrap around, or of f64, in tiles of rows and columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import Type, Value, div_rem, fma, named, over, registers, share, smaller, traced, whole
from .rows import PRODUCT

ROWS = 4
"""Rows of a tile of results, which has two registers of columns."""


class Matrix(NamedTuple):
    """Dense, `width` elements a row, from an address on."""

    start: Value
    width: Value

    def at(self, row: Value, column: Value, kind: Type) -> Value:
        """The address of an element."""
        return self.start + (row * self.width + column) * kind.number.size


def make(tier: Tier, element: str) -> Callable[..., None]:
    """The kernel of y[i] = a[i] b[i]; its record is PRODUCT."""
    number = named(element)

    @traced
    def block(args: Value, batch: Value, first: Value, end: Value) -> None:
        r = fields(args, PRODUCT)
        a, b = Matrix(r.a + batch * r.a_batch, r.k), Matrix(r.b + batch * r.b_batch, r.n)
        y = Matrix(r.y + batch * (r.m * r.n * number.size), r.n)
        for rows in (ROWS, 1):
            stop = first + whole(end - first, rows)
            for i in over(first, stop, rows):
                left = 0
                for kind in (number.vector(8 * tier.lanes // number.size), number.vector(1)):
                    right = left + whole(r.n - left, kind.lanes)
                    for j in over(left, right, kind.lanes):
                        _tile(kind, (a, b, y), r.k, i, j, rows)
                    left = right
            first = stop

    def product(args, thread, threads):
        r = fields(args, PRODUCT)
        first, end = share(r.batch * r.m, thread, threads)
        while first < end:
            batch, row = div_rem(first, r.m)
            count = smaller(r.m - row, end - first)
            block(args, batch, row, row + count)
            first += count

    return product


def _tile(kind: Type, matrices: tuple[Matrix, Matrix, Matrix], k: Value, i: Value, j: Value, rows: int) -> None:
    """Compute the tile of `rows` x lanes results from row i and column j on."""
    a, b, y = matrices
    sums = registers([kind(0)] * rows)
    for p in over(k):
        column = kind[b.at(p, j, kind)]
        for row in range(rows):
            one = kind(kind.number[a.at(i + row, p, kind)])
            sums[row] = fma(one, column, sums[row]) if kind.real else sums[row] + one * column
    for row in range(rows):
        kind[y.at(i + row, j, kind)] = sums[row]
