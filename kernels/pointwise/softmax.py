"""softmax and log_softmax along one axis of [outer, n, inner]. y may be x.

As in NumPy, a NaN or a +inf makes everything along its axis NaN.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from ..isa import functions as f
from ..isa.tiers import Tier
from ..lang import F32, I64, Type, Value, along, either, larger, over, register, room, smaller, total
from .along_axis import Share, along_axis, planes
from .rows import AXIS

SHORT = 8
"""The longest rows of which a vector of rows is computed at once."""


def make(tier: Tier, log: bool) -> Callable[..., None]:
    """The kernel: `log` gives log_softmax."""
    f32 = F32.vector(tier.lanes)

    def part(r: Any, share: Share) -> None:
        with either(r.inner == 1) as (rows, several):
            with rows, either(r.n <= SHORT) as (short, long):
                with short:
                    for o in over(share.first, share.end, tier.lanes):
                        xs, ys = (F32.at(address + 4 * r.n * o) for address in (r.x, r.y))
                        _short_rows(f32, ys, xs, r.n, smaller(share.end - o, tier.lanes), log)
                with long:
                    for xs, ys in planes(r, share, F32, F32, r.n):
                        _row(f32, ys, xs, r.n, log)
            with several:
                for xs, ys in planes(r, share, F32, F32, r.n):
                    for v, i, mask in along(f32, share.left, share.right, unroll=1):
                        _column(v, Columns(ys + i, xs + i, r.n, r.inner), mask, log)

    return along_axis(AXIS, part)


class Columns(NamedTuple):
    """A vector of columns of n elements `step` apart, in x and in y."""

    y: Value
    x: Value
    n: Value
    step: Value


def _short_rows(f32: Type, ys: Value, xs: Value, n: Value, count: Value, log: bool) -> None:
    """Up to a vector of rows of at most SHORT elements: as columns of a buffer."""
    kept = room(f32, SHORT).bits(F32)
    for i in over(count):
        for j in over(n):
            dense, turned = i * n + j, j * f32.lanes + i
            kept[turned] = xs[dense]
    _column(f32, Columns(kept, kept, n, I64(f32.lanes)), None, log)
    for i in over(count):
        for j in over(n):
            dense, turned = i * n + j, j * f32.lanes + i
            ys[dense] = kept[turned]


def _row(f32: Type, ys: Value, xs: Value, n: Value, log: bool) -> None:
    """One contiguous row of n elements."""
    one = F32.vector(1)
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


def _scale(sums: Value, log: bool) -> Value:
    """The factor on the exponentials, or for log the number that is subtracted."""
    return f.log(sums) if log else 1.0 / sums


def _column(f32: Type, columns: Columns, mask: Value | None, log: bool) -> None:
    """A vector of columns."""
    y, x, n, step = columns
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
