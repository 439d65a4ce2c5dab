"""dot_few: C = A x B for few rows of A, or for a B of one column. B is read in place: packing it would take longer than
the product.
"""

from __future__ import annotations

from typing import Any

from ..core.record import fields
from ..lang import F32, I32, Value, along, clear, either, every_tier, fma, number, repeat, smaller, tier, total, traced
from ..pointwise.epilogue import Area, Lines, addend_at, is_walked, walk
from .results import finish_row
from .rows import DOT_FEW

TOGETHER = 8
"""Rows of B that are added to a row of C at a time."""


def _one_column(args: int, thread: int, threads: int) -> None:
    r = fields(args, DOT_FEW)
    rows = r.batch * r.m
    row, end = rows * thread // threads, rows * (thread + 1) // threads
    while row < end:
        i = row // r.m
        first = row - i * r.m
        count = smaller(r.m - first, end - row)
        c = r.c + (i * r.c_stride + first * r.ldc) * 4
        _column(args, c, r.a + (i * r.a_stride + first * r.lda) * 4, r.b + i * r.b_stride * 4, count)
        _finish(args, c, 1, count, i, first, 0)
        row += count


def _some_rows(args: int, thread: int, threads: int) -> None:
    r = fields(args, DOT_FEW)
    blocks = (r.n + r.block - 1) // r.block
    units = r.batch * blocks
    line, row_of_b = r.ldc * 4, r.n * 4
    for unit in range(units * thread // threads, units * (thread + 1) // threads):
        i = unit // blocks
        left = (unit - i * blocks) * r.block
        columns = smaller(r.block, r.n - left)
        a = r.a + i * r.a_stride * 4
        b = r.b + (i * r.b_stride + left) * 4
        c = r.c + (i * r.c_stride + left) * 4
        for row in range(r.m):
            clear(c + row * line, columns)
        whole = r.k // TOGETHER * TOGETHER
        for k in range(0, whole, TOGETHER):
            for row in range(r.m):
                _add(TOGETHER, c + row * line, a + (row * r.lda + k) * 4, b + k * row_of_b, row_of_b, columns)
        for k in range(whole, r.k):
            for row in range(r.m):
                _add(1, c + row * line, a + (row * r.lda + k) * 4, b + k * row_of_b, row_of_b, columns)
        for row in range(r.m):
            _finish(args, c + row * line, columns, 1, i, row, left)


@every_tier
def make_dot_few(args: int, thread: int, threads: int) -> None:
    """The kernel; its record is `rows.DOT_FEW`. Sums run over k in order, for a B of one column as in `total`."""
    r = fields(args, DOT_FEW)
    if r.n == 1:
        _one_column(args, thread, threads)
    else:
        _some_rows(args, thread, threads)


@traced
def _add(count: int, to: Value, factors: Value, rows: Value, step: Value, n: Value) -> None:
    """Add `count` rows of n elements, `step` bytes apart, each times a factor."""
    f32 = F32.vector(tier().lanes)
    sums, start = F32.at(to), F32.at(factors)
    weights = [f32(start[j]) for j in range(count)]
    sources = [F32.at(rows + step * j) for j in range(count)]
    for some, i, mask in along(f32, 0, n, 1):
        y = some[sums + i, mask]
        for weight, source in zip(weights, sources, strict=True):
            y = fma(some[source + i, mask], weight, y)
        some[sums + i, mask] = y


@traced
def _column(args: Any, to: Value, a: Value, x: Value, rows: Value) -> None:
    """`start` and the products of `rows` rows with one column."""
    slots, f32, right = fields(args, DOT_FEW), F32.vector(tier().lanes), F32.at(x)
    start = slots.start.to(I32).bits(F32)

    def row(_: Value, state: list[Value]) -> list[Value]:
        y, left = state[0], F32.at(state[1])
        products = total(
            f32, slots.k, 0, lambda p, q: p + q, lambda some, i, mask: some[left + i, mask] * some[right + i, mask]
        )
        F32[y] = start + products
        return [y + 4 * slots.ldc, state[1] + 4 * slots.lda]

    repeat(rows, [to, a], row)


@traced
def _finish(args: Any, to: Any, n: Any, rows: Any, image: Any, row: Any, column: Any) -> None:
    """Apply the epilogue in place to the sums of `rows` rows, from (image, row, column) on."""
    slots, n, rows, column = fields(args, DOT_FEW), number(n), number(rows), number(column)
    step = slots.ldc * 4

    def run(j: Value, state: list[Value]) -> list[Value]:
        sums, addends = F32.at(state[0]), addend_at(slots, image, row + j, column)
        finish_row(slots, sums, sums, n, addends)
        return [state[0] + step]

    with either(is_walked(slots), likely=False) as (chain, plain):
        with chain:
            walk(slots, Area(image, row, column, rows, n), Lines(to, step), Lines(to, step))
        with plain:
            repeat(rows, [to], run)
