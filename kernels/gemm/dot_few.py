"""dot_few: C = A x B for few rows of A, or few columns of B, which is read in place: packing it would take longer than
the product.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..core.record import fields
from ..lang import (
    F32,
    Value,
    along,
    cases,
    clear,
    either,
    every_tier,
    fma,
    folds,
    number,
    over,
    registers,
    repeat,
    room,
    smaller,
    tier,
    total,
    traced,
)
from ..pointwise.epilogue import Area, Lines, addend_at, is_walked, walk
from .pick_dot import FEW_COLUMNS, rows_together
from .results import finish_row
from .rows import DOT_FEW

TOGETHER = 8
"""Rows of B that are added to a row of C at a time."""
ROWS = 64
"""Rows whose sums with columns are made before the epilogue is applied."""


def _columns(args: int, thread: int, threads: int) -> None:
    r = fields(args, DOT_FEW)
    rows = r.batch * r.m
    row, end = rows * thread // threads, rows * (thread + 1) // threads
    while row < end:
        i = row // r.m
        first = row - i * r.m
        count = smaller(smaller(r.m - first, end - row), ROWS)
        c = r.c + (i * r.c_stride + first * r.ldc) * 4
        _rows(args, c, r.a + (i * r.a_stride + first * r.lda) * 4, r.b + i * r.b_stride * 4, count, i, first)
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
            _finish(args, c + row * line, columns, i, row, left)


@every_tier
def make_dot_few(args: int, thread: int, threads: int) -> None:
    """The kernel; its record is `rows.DOT_FEW`. Sums run over k in order, for columns in vectors along it."""
    r = fields(args, DOT_FEW)
    if r.columns:
        _columns(args, thread, threads)
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
def _rows(args: Any, to: Value, a: Value, b: Value, rows: Value, image: Value, first: Value) -> None:
    """Up to ROWS rows of C, of which this is the first: sums side by side, and from there the epilogue."""
    most = FEW_COLUMNS[tier().registers]
    slots, sums = fields(args, DOT_FEW), room(F32, ROWS * most)
    one, several = partial(_one_by_one, slots, sums, a, b, rows), {}
    for n in range(1, most + 1):
        several[n] = partial(_some_by_some, n, slots, sums, a, b, rows)
    cases(slots.n * (slots.columns - 1), several, one)
    _finish_rows(slots, sums, to, Area(image, first, number(0), rows, slots.n))


def _one_by_one(slots: Any, sums: Value, a: Value, b: Value, rows: Value) -> None:
    """The sums of rows with one column, each in several vectors."""
    f32, right, start = F32.vector(tier().lanes), F32.at(b), F32.at(slots.start)[0]
    for row in over(rows):
        left = F32.at(a + row * slots.lda * 4)
        sums[row] = start + total(
            f32, slots.k, 0, lambda p, q: p + q, lambda some, i, mask, x=left: some[x + i, mask] * some[right + i, mask]
        )


def _some_by_some(n: int, slots: Any, sums: Value, a: Value, b: Value, rows: Value) -> None:
    """The sums of rows with n columns, of several rows at a time. Behind the last row it is read again."""
    f32, together = F32.vector(tier().lanes), rows_together(tier(), n)
    found = F32.vector(together * n)
    start = found[slots.start]
    columns = [F32.at(b + slots.k * 4 * i) for i in range(n)]
    for first in over(0, rows, together):
        sources = [F32.at(a + smaller(first + i, rows - 1) * slots.lda * 4) for i in range(together)]
        parts = registers([f32(0)] * found.lanes)
        for some, i, mask in along(f32, 0, slots.k, 1):
            left = [some[source + i, mask] for source in sources]
            for c, column in enumerate(columns):
                right = some[column + i, mask]
                for row, x in enumerate(left):
                    parts[row * n + c] = fma(x, right, parts[row * n + c])
        found[sums + first * n] = start + folds(lambda x, y: x + y, parts.values())


@traced
def _finish(args: Any, to: Any, n: Any, image: Any, row: Any, column: Any) -> None:
    """Apply the epilogue in place to n sums of a row, from (image, row, column) on."""
    _finish_rows(fields(args, DOT_FEW), F32.at(to), to, Area(*map(number, (image, row, column, 1, n))))


def _finish_rows(slots: Any, sums: Value, to: Value, area: Area) -> None:
    """Apply the epilogue to rows of sums side by side, and store them from an address on."""
    n, rows, step = area.columns, area.rows, slots.ldc * 4

    def row(j: Value, state: list[Value]) -> list[Value]:
        finish_row(slots, state[0], F32.at(state[1]), n, addend_at(slots, area.image, area.row + j, area.column))
        return [state[0] + n, state[1] + step]

    with either(is_walked(slots), likely=False) as (chain, plain):
        with chain:
            walk(slots, area, Lines(sums.address, n * 4), Lines(to, step))
        with plain:
            dense = (slots.ldc == n) & ((slots.addend == 0) | (slots.addend_row == n))
            with either(dense, likely=True) as (whole, apart):
                with whole:
                    finish_row(slots, sums, F32.at(to), n * rows, addend_at(slots, area.image, area.row, area.column))
                with apart:
                    repeat(rows, [sums, to], row)
