"""Kernels that go along one axis of [outer, n, inner]: their record, and who computes what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..core.record import reader
from ..lang import Value, cases, number, share, thread_block, traced
from .rows import AXIS


class Columns(NamedTuple):
    """Columns left..right of [n, inner] elements: an axis of n of them, `inner` apart."""

    n: Value
    inner: Value
    left: Value
    right: Value


def columns_of(columns: Sequence[Any]) -> Columns:
    """As kernel code passes them: a tuple."""
    return Columns(*map(number, columns))


def along_axis(
    last: bool, one: Any, x_size: int = 4, y_size: int = 4, keeps: bool = False, finish: Any = None
) -> Callable[..., None]:
    """The kernel that calls one(args, y, x, n) for each row, or without `last` one(args, y, x, columns), columns as in
    Columns.

    `args` is the record's address. Elements have x_size and y_size bytes; y `keeps` the axis, or else has one element
    in its place. At last finish(args, y, rows, columns, step) is called with where the thread's results begin, what
    they are, and the bytes from row to row.
    """
    read, finish = reader(AXIS), finish or nothing

    def rows(args, thread, threads):
        r = read(args)
        results = r.n if keeps else 1
        first, end = share(r.outer, thread, threads)
        for o in range(first, end):
            one(args, r.y + y_size * results * o, r.x + x_size * r.n * o, r.n)
        finish(args, r.y + y_size * results * first, 1, results * (end - first), 0)

    def columns(args, thread, threads):
        r = read(args)
        results = r.n * r.inner if keeps else r.inner
        first, end, left, right = thread_block(r.outer, r.inner, thread, threads)
        for o in range(first, end):
            y, x = r.y + y_size * results * o, r.x + x_size * r.n * r.inner * o
            one(args, y, x, (r.n, r.inner, left, right))
        step = y_size * results
        finish(args, r.y + step * first + y_size * left, end - first, right - left, step)

    return rows if last else columns


def by_extreme(r: Any, body: Callable[[bool, bool], None], signs: Sequence[bool] = (False, True)) -> None:
    """`body(least, signed)` for what a record of EXTREME says; `signs`: what `signed` may be."""
    bodies = {least | signed << 1: partial(body, least, signed) for least in (False, True) for signed in signs}
    cases(r.least | (r.signed << 1), bodies)


@traced
def nothing(args: Value, y: Value, rows: Any, columns: Any, step: Any) -> None:
    pass
