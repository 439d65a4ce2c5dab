"""Kernels that go along one axis of [outer, n, inner]: their record, and who computes what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..core.record import reader
from ..isa.byte_ops import choose
from ..isa.loops import thread_block, thread_range
from ..isa.vector import I64, emits
from .rows import AXIS


def along_axis(
    last: bool, one: Any, x_size: int = 4, y_size: int = 4, keeps: bool = False, finish: Any = None
) -> Callable[..., None]:
    """The kernel that calls one(args, y, x, n) for each row, or without `last` one(args, y, x, n, inner, left, right).

    Those go along n neighbors, and along each of the columns left..right, whose elements are `inner` apart. `args` is
    the record's address. Elements have x_size and y_size bytes; y `keeps` the axis, or else has one element in its
    place. At last finish(args, y, rows, columns, step) is called with where the thread's results begin, what they are,
    and the bytes from row to row.
    """
    fields, finish = reader(AXIS), finish or nothing

    def rows(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        results = r.n if keeps else 1
        first, end = thread_range(r.outer, thread, threads)
        for o in range(first, end):
            one(args, r.y + y_size * results * o, r.x + x_size * r.n * o, r.n)
        finish(args, r.y + y_size * results * first, 1, results * (end - first), 0)

    def columns(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        results = r.n * r.inner if keeps else r.inner
        first, end, left, right = thread_block(r.outer, r.inner, thread, threads)
        for o in range(first, end):
            one(args, r.y + y_size * results * o, r.x + x_size * r.n * r.inner * o, r.n, r.inner, left, right)
        step = y_size * results
        finish(args, r.y + step * first + y_size * left, end - first, right - left, step)

    return rows if last else columns


def by_extreme(b: Any, r: Any, body: Callable[[bool, bool], None], signs: Sequence[bool] = (False, True)) -> None:
    """`body(least, signed)` for what a record of EXTREME says; `signs`: what `signed` may be."""
    cases = {least | signed << 1: partial(body, least, signed) for least in (False, True) for signed in signs}
    choose(b, b.or_(r.least, b.shl(r.signed, I64(1))), cases)


@emits
def nothing(b: Any, args: Any, y: Any, rows: Any, columns: Any, step: Any) -> None:
    pass
