"""softmax and log_softmax along one axis of [outer, n, inner].

y may be x. As in NumPy, a NaN or a +inf makes all along its axis NaN.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..isa import functions as f
from ..isa.tiers import Tier
from ..lang import F32, Type, Value, along, larger, over, register, room, share, smaller, total, traced
from .along_axis import along_axis, columns_of
from .rows import AXIS

SHORT = 8
"""Elements of rows up to which a vector of rows is done together."""


def make(tier: Tier, log: bool, last: bool) -> Callable[..., None]:
    """The kernel: `log` gives log_softmax, `last` is for an axis whose elements are neighbors."""
    f32 = F32.vector(tier.lanes)
    if not last:
        return along_axis(False, _columns(f32, log), keeps=True)
    read, row, short, lanes = reader(AXIS), _row(f32, log), _short_rows(f32, log), tier.lanes

    def rows(args, thread, threads):
        r = read(args)
        first, end = share(r.outer, thread, threads)
        if r.n <= SHORT:
            for o in range(first, end, lanes):
                short(r.y + 4 * r.n * o, r.x + 4 * r.n * o, r.n, smaller(end - o, lanes))
        else:
            for o in range(first, end):
                row(r.y + 4 * r.n * o, r.x + 4 * r.n * o, r.n)

    return rows


def _short_rows(f32: Type, log: bool) -> Any:
    """For up to a vector of rows of at most SHORT elements: as columns of a buffer."""

    @traced
    def short(y: Value, x: Value, n: Value, count: Value) -> None:
        kept, xs, ys = room(f32, SHORT).bits(F32), F32.at(x), F32.at(y)
        for i in over(count):
            for j in over(n):
                dense, turned = i * n + j, j * f32.lanes + i
                kept[turned] = xs[dense]
        _column(f32, kept, kept, n, f32.lanes, None, log)
        for i in over(count):
            for j in over(n):
                dense, turned = i * n + j, j * f32.lanes + i
                ys[dense] = kept[turned]

    return short


def _row(f32: Type, log: bool) -> Any:
    """For one contiguous row of n elements."""

    @traced
    def row(y: Value, x: Value, n: Value) -> None:
        one, xs, ys = F32.vector(1), F32.at(x), F32.at(y)
        # The larger one, the second when either is NaN: one instruction. The exponentials will show the NaN.
        top = total(f32, n, -math.inf, larger, lambda v, i, mask: v[xs + i, mask])

        def power(v: Type, i: Value, mask: Any) -> Value:
            e = f.exp(v[xs + i, mask] - top)
            if not log:
                v[ys + i, mask] = e
            return e

        scale = _scale(one(total(f32, n, 0, operator.add, power)), log)[0]
        for v, i, mask in along(f32, 0, n):
            v[ys + i, mask] = (v[xs + i, mask] - top) - scale if log else v[ys + i, mask] * scale

    return row


def _scale(sums: Value, log: bool) -> Value:
    """What the exponentials are multiplied by, or for log what is subtracted."""
    return f.log(sums) if log else 1.0 / sums


def _columns(f32: Type, log: bool) -> Any:
    @traced
    def columns(args: Value, y: Value, x: Value, columns: Any) -> None:
        n, inner, left, right = columns_of(columns)
        xs, ys = F32.at(x), F32.at(y)
        for v, i, mask in along(f32, left, right, unroll=1):
            _column(v, ys + i, xs + i, n, inner, mask, log)

    return columns


def _column(f32: Type, y: Value, x: Value, n: Value, step: Any, mask: Any, log: bool) -> None:
    """A vector of columns, each along n elements `step` apart."""
    largest, sums = register(f32(-math.inf)), register(f32(0))
    for i in over(n):
        largest.value = larger(largest.value, f32[x + i * step, mask])
    top = largest.value
    for i in over(n):
        e = f.exp(f32[x + i * step, mask] - top)
        sums.value += e
        if not log:
            f32[y + i * step, mask] = e
    scale = _scale(sums.value, log)
    for i in over(n):
        value = (f32[x + i * step, mask] - top) - scale if log else f32[y + i * step, mask] * scale
        f32[y + i * step, mask] = value
