"""softmax and log_softmax along one axis of [outer, n, inner]. y may be x.

As in NumPy, a NaN or a +inf makes everything along its axis NaN.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..isa import functions as f
from ..isa.tiers import Tier
from ..lang import Value, along, choose, either, larger, over, register, remainder, room, smaller, tier, total
from ..lang.types import F32, I64, Type
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
            with several, either(_are_few(f32, r.inner)) as (few, many):
                with few:
                    for xs, ys in planes(r, share, F32, F32, r.n):
                        _few_columns(f32, ys, xs, r.n, r.inner, log)
                with many:
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
        e = _power(v[xs + i, mask] - top, log)
        if not log:
            v[ys + i, mask] = e
        return e

    scale = _scale(one(total(f32, n, 0, operator.add, power, 2)), log)[0]
    for v, i, mask in along(f32, 0, n):
        v[ys + i, mask] = (v[xs + i, mask] - top) - scale if log else v[ys + i, mask] * scale


def _power(x: Value, log: bool) -> Value:
    """e**x, half of it where a sum of such divides it; x <= 0."""
    return f.exp(x) if log else f.half_exp(x)


def _scale(sums: Value, log: bool) -> Value:
    """The factor on the exponentials, or for log the number that is subtracted."""
    return f.log(sums) if log else 1.0 / sums


def _column(f32: Type, columns: Columns, mask: Value | None, log: bool) -> None:
    y, x, n, step = columns
    largest, sums = register(f32(-math.inf)), register(f32(0))
    for i in over(n):
        largest.value = larger(largest.value, f32[x + i * step, mask])
    top = largest.value
    for i in over(n):
        e = _power(f32[x + i * step, mask] - top, log)
        sums.value += e
        if not log:
            f32[y + i * step, mask] = e
    scale = _scale(sums.value, log)
    for i in over(n):
        value = (f32[x + i * step, mask] - top) - scale if log else f32[y + i * step, mask] * scale
        f32[y + i * step, mask] = value


def _are_few(f32: Type, inner: Value) -> Value:
    """Whether a vector takes several rows of so many columns; without masks in hardware it must be full."""
    several = inner * 2 <= f32.lanes
    return several if tier().masks else several & (remainder(f32.lanes, inner) == 0)


def _few_columns(f32: Type, ys: Value, xs: Value, n: Value, inner: Value, log: bool) -> None:
    """A plane of n rows of few columns, several whole rows a vector."""
    count, width = n * inner, f32.lanes - remainder(f32.lanes, inner)
    full = f32.below(width) if tier().masks else None

    def vectors() -> Iterator[tuple[Value, Value | None]]:
        end = count - remainder(count, width)
        for i in over(0, end, width):
            yield i, full
        for i in over(end, count, width):
            yield i, f32.below(count - i)

    def joined(combine: Callable[[Value, Value], Value], start: float, term: Callable[..., Value]) -> Value:
        """The reduction of each column's terms by `combine`, in all of its lanes."""
        found = register(f32(start))
        for i, mask in vectors():
            value = term(i, mask)
            found.value = combine(found.value, value if mask is None else choose(mask, value, start))
        kept = F32.at(room(f32, 2).address)
        f32[kept] = found.value
        for i in over(inner, width, inner):
            found.value = combine(found.value, f32[kept + i])
        for i in over(0, width, inner):
            f32[kept + i] = found.value
        return f32[kept]

    top = joined(larger, -math.inf, lambda i, mask: f32[xs + i, mask])

    def power(i: Value, mask: Value | None) -> Value:
        e = _power(f32[xs + i, mask] - top, log)
        if not log:
            f32[ys + i, mask] = e
        return e

    scale = _scale(joined(operator.add, 0, power), log)
    for i, mask in vectors():
        f32[ys + i, mask] = (f32[xs + i, mask] - top) - scale if log else f32[ys + i, mask] * scale
