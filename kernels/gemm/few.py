"""dot_few: C = A x B for few rows of A, or for a B of one column. B is read where it lies: packing it would take longer
than the product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import loaded, reader
from ..isa.loops import each, repeat, smaller, total
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector, emits
from ..pointwise.epilogue import addend_at, is_walked, simple, walk
from .rows import DOT_FEW

TOGETHER = 8
"""Rows of B that are added to a row of C at a time."""


def make_dot_few(tier: Tier) -> Callable[..., None]:
    """The kernel; its record is `rows.DOT_FEW`. Sums run over k in order, but those of one column as `total` does."""
    fields = reader(DOT_FEW)
    clear, column, finish = _clear(tier), _column(tier), _finish(tier)
    add, add_one = _add(tier, TOGETHER), _add(tier, 1)

    def one_column(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        rows = r.batch * r.m
        row, end = rows * thread // threads, rows * (thread + 1) // threads
        while row < end:
            i = row // r.m
            first = row - i * r.m
            count = smaller(r.m - first, end - row)
            c = r.c + (i * r.c_stride + first) * 4
            column(c, r.a + (i * r.a_stride + first * r.k) * 4, r.b + i * r.b_stride * 4, r.k, count)
            finish(args, c, 1, count, i, first, 0)
            row += count

    def some_rows(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        blocks = (r.n + r.block - 1) // r.block
        units = r.batch * blocks
        line = r.n * 4
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
                    add(c + row * line, a + (row * r.k + k) * 4, b + k * line, line, columns)
            for k in range(whole, r.k):
                for row in range(r.m):
                    add_one(c + row * line, a + (row * r.k + k) * 4, b + k * line, line, columns)
            for row in range(r.m):
                finish(args, c + row * line, columns, 1, i, row, left)

    def dot_few(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        if r.n == 1:
            one_column(args, thread, threads)
        else:
            some_rows(args, thread, threads)

    return dot_few


def _clear(tier: Tier) -> Any:
    """An intrinsic that makes n sums 0."""

    @emits
    def clear(b: Any, to: Any, n: Any) -> None:
        v = Vector(b, tier)
        each(v, I64(0), n, lambda w, i, mask: w.store(w.const(0), w.at(v.pointer(to), i), mask), 1)

    return clear


def _add(tier: Tier, count: int) -> Any:
    """An intrinsic that adds `count` rows of n elements, `step` bytes apart, times as many numbers at `factors`."""

    @emits
    def add(b: Any, to: Any, factors: Any, rows: Any, step: Any, n: Any) -> None:
        v = Vector(b, tier)
        sums = v.pointer(to)
        numbers = [v.broadcast(v.at(v.pointer(factors), j)) for j in range(count)]
        sources = [v.pointer(b.add(rows, b.mul(step, I64(j)))) for j in range(count)]

        def one(w: Vector, i: Any, mask: Any) -> None:
            y = w.load(w.at(sums, i), mask)
            for number, source in zip(numbers, sources, strict=True):
                y = w.fma(w.load(w.at(source, i), mask), number, y)
            w.store(y, w.at(sums, i), mask)

        each(v, I64(0), n, one, 1)

    return add


def _column(tier: Tier) -> Any:
    """An intrinsic that multiplies `rows` rows of n elements by one column of as many."""

    @emits
    def column(b: Any, to: Any, a: Any, x: Any, n: Any, rows: Any) -> None:
        v = Vector(b, tier)
        right = v.pointer(x)

        def row(_: Any, state: list[Any]) -> list[Any]:
            y, at = state
            left = v.pointer(at)

            def product(w: Vector, i: Any, mask: Any) -> Any:
                return b.fmul(w.load(w.at(left, i), mask), w.load(w.at(right, i), mask))

            b.store(total(v, n, 0, lambda w, p, q: w.b.fadd(p, q), product), v.pointer(y))
            return [b.add(y, I64(4)), b.add(at, b.mul(n, I64(4)))]

        repeat(b, rows, [to, a], row)

    return column


def _finish(tier: Tier) -> Any:
    """An intrinsic that makes results of sums where they lie: of `rows` rows, dense, from (image, row, column) on."""

    @emits
    def finish(b: Any, args: Any, to: Any, n: Any, rows: Any, image: Any, row: Any, column: Any) -> None:
        v, slots = Vector(b, tier), loaded(b, args, DOT_FEW)
        step = b.mul(n, I64(4))

        def run(j: Any, state: list[Any]) -> list[Any]:
            (target,) = state
            sums, addends = v.pointer(target), addend_at(v, slots, image, b.add(row, j), column)

            def one(w: Vector, i: Any, mask: Any) -> None:
                value = w.load(w.at(sums, i), mask)
                (result,) = simple(w, slots, [value], lambda _: w.load(w.at(addends, i), mask))
                w.store(result, w.at(sums, i), mask)

            each(v, I64(0), n, one, 1)
            return [b.add(target, step)]

        with b.if_else(is_walked(b, slots), likely=False) as (chain, plain):
            with chain:
                walk(b, slots, image, row, column, rows, n, to, step, to, step)
            with plain:
                repeat(b, rows, [to], run)

    return finish
