"""Kernels along one axis of [outer, n, inner]: division among threads, loads, comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..core.record import Record, fields
from ..isa import functions as f
from ..isa.tiers import Tier
from ..lang import BF16, F32, Type, Value, along, larger, named, over, smaller, thread_block, total, traced
from ..lang.lines import UNROLL, Combine

Before = Callable[[Value], Value]


class Share(NamedTuple):
    """A thread's part: columns left..right of the planes first..end, of [n, inner] elements each."""

    first: Value
    end: Value
    left: Value
    right: Value


def along_axis(record: Record, part: Callable[[Any, Share], None]) -> Callable[..., None]:
    """The kernel that calls part(record, share); its record begins with AXIS."""

    @traced
    def parts(args: Value, first: Any, end: Any, left: Any, right: Any) -> None:
        part(fields(args, record), Share(first, end, left, right))

    def kernel(args, thread, threads):
        r = fields(args, record)
        first, end, left, right = thread_block(r.outer, r.inner, thread, threads)
        parts(args, first, end, left, right)

    return kernel


def planes(r: Any, share: Share, x: Type, y: Type, results: Any = 1) -> Iterator[tuple[Value, Value]]:
    """`for xs, ys in planes(r, share, F32, I64)`: pointers to planes of such numbers; y has `results` rows."""
    x_step, y_step = r.n * r.inner * x.size, r.inner * results * y.size
    for o in over(share.first, share.end):
        yield x.at(r.x + o * x_step), y.at(r.y + o * y_step)


def columns(kind: Type, share: Share) -> Iterator[tuple[Type, Value, Value | None]]:
    """`for v, i, rest in columns(kind, share)`: the columns that a vector spans from i on, only `rest` of the last."""
    for v, i, mask in along(kind, share.left, share.right):
        yield v, i, None if mask is None else share.right - i


def vector(tier: Tier, element: str) -> Type:
    """A register of an element type: "i8", "i32", "i64", "f32", "f64"; of f32 for bf16."""
    number = F32 if element == "bf16" else named(element)
    return number.vector(4 * tier.lanes // number.size)


def load(kind: Type, place: Value, mask: Value | None) -> Value:
    """A vector, or its lanes that a mask has; of bytes, for which not all tiers have masks, all; of bf16 as f32."""
    if place.type.target is BF16:
        return BF16.like(kind)[place, mask].to(F32)
    return kind[place, None if kind.bits == 8 else mask]


def row_total(kind: Type, xs: Value, n: Value, start: float, combine: Combine, before: Before) -> Value:
    """All `before(x)` of n neighbors combined, beginning with `start`: a number. Bytes take one register at a time."""
    unroll = 1 if kind.bits == 8 else UNROLL
    return total(kind, n, start, combine, lambda v, i, mask: before(load(v, xs + i, mask)), unroll)


def limits(kind: Type) -> tuple[float, float]:
    """The least and the greatest number of a type."""
    if kind.real:
        return -math.inf, math.inf
    low = -1 << kind.bits - 1 if kind.signed else 0
    return low, ~low if kind.signed else (1 << kind.bits) - 1


def greater(x: Value, y: Value) -> Value:
    """The larger one, NaN when either is NaN."""
    return f.maximum(x, y) if x.type.real else larger(x, y)


def less(x: Value, y: Value) -> Value:
    """The smaller one, NaN when either is NaN."""
    return f.minimum(x, y) if x.type.real else smaller(x, y)
