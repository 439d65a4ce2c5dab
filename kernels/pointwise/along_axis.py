"""Kernels that go along one axis of [outer, n, inner]: their record, and who computes what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..isa.loops import thread_block, thread_range
from ..isa.vector import emits
from .rows import AXIS


def along_axis(
    last: bool, one: Any, x_size: int = 4, y_size: int = 4, keeps: bool = False, end: Any = None
) -> Callable[..., None]:
    """The kernel that calls one(y, x, n) for each row, or without `last` one(y, x, n, inner, left, right).

    Those go along n neighbors, and along each of the columns left..right, whose elements are `inner` apart. Elements
    have x_size and y_size bytes; y `keeps` the axis, or else has one element in its place. At last
    end(args, y, rows, columns, step) is called with where the thread's results begin, what they are, and the bytes
    from row to row.
    """
    fields, end = reader(AXIS), end or nothing

    def rows(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        results = r.n if keeps else 1
        first, stop = thread_range(r.outer, thread, threads)
        for o in range(first, stop):
            one(r.y + y_size * results * o, r.x + x_size * r.n * o, r.n)
        end(args, r.y + y_size * results * first, 1, results * (stop - first), 0)

    def columns(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        results = r.n * r.inner if keeps else r.inner
        first, stop, left, right = thread_block(r.outer, r.inner, thread, threads)
        for o in range(first, stop):
            one(r.y + y_size * results * o, r.x + x_size * r.n * r.inner * o, r.n, r.inner, left, right)
        step = y_size * results
        end(args, r.y + step * first + y_size * left, stop - first, right - left, step)

    return rows if last else columns


@emits
def nothing(b: Any, args: Any, y: Any, rows: Any, columns: Any, step: Any) -> None:
    pass
