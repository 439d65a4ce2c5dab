"""Pooling, channels last, compiled for a width of the window and an output stride counted in taps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import Record
from ..isa.tiers import Tier
from ..lang import F32, I16, U8, Type, Value, choose, fma, intrinsic, larger, over, register, registers, when
from .rows import POOL
from .tiles import Shape, Tile, tiles
from .window import Place, Range, corner, existing, low_bits, nest, spread, steps


def make_pool(tier: Tier, op: str, size: int, stride: int) -> Callable:
    """y[n, i, j, c] = epilogue(`op` over x[n, i stride_y + p dilation_y - pad_y, j stride_x + q dilation_x - pad_x, c]
    for the taps inside of the image); p < k_h, q < size, where stride_x is a divisor of stride * dilation_x. Planes
    come before rows likewise.

    An average divides by the number of these taps, with `include_pad` by that of the taps inside of the padded image.
    Columns are pooled first, then their results from left to right.
    """
    return nest(POOL, pooled(tier, POOL, F32.vector(tier.lanes), op, size, stride))


def pooled(tier: Tier, record: Record, kind: Type, op: str, size: int, stride: int) -> Callable[[Place], None]:
    """A function that computes a row of outputs, in vectors of type `kind`."""
    tile = min(4 if kind.number is U8 else 7, (tier.registers - 2 - size) // stride + 1)
    shape = Shape(size, stride, tile)
    span = shape.span

    def pools_of(r: Any, where: Tile) -> list[Value]:
        assert where.planes is not None
        totals = registers([start(kind, op)] * span)
        for z in over(*where.planes):
            for p in over(*where.rows):
                line = where.x + r.w * r.ldx * (r.h * r.dilation_z * z + r.dilation_y * p)
                for j, pixel in enumerate(spread(line, r.ldx * r.dilation_x, span)):
                    with existing(where.columns, j):
                        totals[j] = joined(op, totals[j], loaded(kind, pixel))
        results = []
        for t in range(tile):
            result, *rest = (totals[t * stride + q] for q in range(size))
            for total in rest:
                result = merged(op, result, total)
            if where.high is None:
                results.append(finished(op, result, None))
            else:
                results.append(result * (inverse(where.high * size) if where.factors is None else where.factors[t]))
        return results

    def inverses(r: Any, where: Tile) -> list[Value]:
        """Of how many elements each output of an average counts."""
        left = where.column * r.stride_x - r.pad_x
        padded = low_bits(steps(r.w + r.far_pad_x, left, r.dilation_x, span), span)
        wide = choose(r.include_pad != 0, padded, where.columns)
        across = (intrinsic("ctpop", (wide >> t * stride) & ((1 << size) - 1)) for t in range(tile))
        return [inverse(where.high * count) for count in across]

    def high(r: Any, place: Place, planes: Range, rows: Range) -> Value | None:
        return rows_counted(r, place, planes, rows) if op == "average" else None

    return tiles(record, kind, shape, pools_of, high, inverses)


def inverse(count: Value) -> Value:
    return 1.0 / count.to(F32)


def rows_counted(r: Any, place: Place, planes: Range, rows: Range) -> Value:
    """How many rows of the windows, in all planes, count in an average: of those that exist or, with `include_pad`, of
    those inside of the padded image.
    """
    included, there = r.include_pad != 0, (planes[1] - planes[0]) * (rows[1] - rows[0])
    front, up = corner(r, place.row)
    padded = steps(r.d + r.far_pad_z, front, r.dilation_z, r.k_d) * steps(r.h + r.far_pad_y, up, r.dilation_y, r.k_h)
    return choose(included, padded, there)


def columns_counted(r: Any, left: Value) -> Value:
    """The columns of a window, which begins at `left`, that count in an average."""
    included = r.include_pad != 0
    end = choose(included, r.w + r.far_pad_x, r.w)
    inside = (left >= 0) & (left + r.k_w * r.dilation_x <= r.w)
    found = register(r.k_w)
    with when(~inside):
        before = choose(included, 0, steps(0, left, r.dilation_x, r.k_w))
        found.value = steps(end, left, r.dilation_x, r.k_w) - before
    return found.value


BELOW = 0x7F
"""How many bf16 of either sign are NaN."""
LEAST = -0x7F80 - 1 + BELOW
"""What `ordered` makes of -inf in bf16."""


def ordered(bits: Value) -> Value:
    """int16 in the order of the bf16 that have these bits, with NaN of either sign below all numbers."""
    return (bits ^ (bits >> 15 & 0x7FFF)) + BELOW


def restored(x: Value) -> Value:
    """The bits from which `ordered` made x."""
    bits = x - BELOW
    return bits ^ (bits >> 15 & 0x7FFF)


def loaded(kind: Type, pixel: Value) -> Value:
    """What is pooled of the elements at a pixel: I16 are the bits of bf16."""
    return ordered(kind[pixel]) if kind.number is I16 else kind[pixel]


def start(kind: Type, op: str) -> Value:
    """The initial value of a pool: the identity of its operation."""
    return kind(LEAST if kind.number is I16 else float("-inf") if op == "max" and kind.number.real else 0)


def joined(op: str, total: Value, x: Value) -> Value:
    """A pool with one more element x.

    max passes over NaN, wherever it is: -inf where there is nothing else.
    """
    if op == "max":
        return larger(x, total)
    if op == "lp2":
        return fma(x, x, total)
    return total + (abs(x) if op == "lp1" else x)


def merged(op: str, total: Value, other: Value) -> Value:
    """The combination of two partial results of a pool."""
    return larger(other, total) if op == "max" else total + other


def finished(op: str, total: Value, count: Any) -> Value:
    """The result of a pool; `count` (int64) elements count in an average."""
    if op == "average":
        return total / count.to(F32)
    if total.type.number is I16:
        return restored(total)
    return rooted(op, total)


def rooted(op: str, total: Value) -> Value:
    """The result of a pool that is no average."""
    return intrinsic("sqrt", total) if op == "lp2" else total
