"""f32 pooling, channels last, for one width of window and one distance of outputs in taps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from ..isa.tiers import Tier
from ..lang import F32, I64, Type, Value, choose, fma, intrinsic, larger, over, registers
from .rows import POOL
from .tiles import Shape, Tile, tiles
from .window import Place, corner, existing, low_bits, spread, steps


def make_pool(tier: Tier, op: str, size: int, stride: int) -> Callable:
    """y[n, i, j, c] is what the epilogue makes of `op` over all
    x[n, i stride_y + p dilation_y - pad_y, j stride_x + q dilation_x - pad_x, c] in the image; p < k_h, q < size,
    where stride_x is a divisor of stride * dilation_x. Planes come before rows likewise.

    An average divides by their number, with `include_pad` by that of the places inside of the padded image.
    Columns are pooled first, then their results from left to right.
    """
    tile = min(7, (tier.registers - 2 - size) // stride + 1)
    shape = Shape(size, stride, tile, 1, deep=True)
    span = shape.span

    def sums_of(f32: Type, r: Any, where: Tile) -> list[Value]:
        totals = registers([start(f32, op)] * span)
        across = r.w * r.ldx
        for z in over(*where.planes):
            for p in over(*where.rows):
                line = where.x + across * (r.h * r.dilation_z * z + r.dilation_y * p)
                for j, pixel in enumerate(spread(line, r.ldx * r.dilation_x, span)):
                    with existing(where.columns, j):
                        totals[j] = joined(op, totals[j], f32[pixel])
        counts = counted(r, where) if op == "average" else [None] * tile
        pooled = [[totals[t * stride + q] for q in range(size)] for t in range(tile)]
        return [finished(op, reduce(partial(merged, op), x), n) for x, n in zip(pooled, counts, strict=True)]

    def counted(r: Any, where: Tile) -> list[Value]:
        """How many elements count in each average of a tile: rows of the window, in all planes, by columns."""
        left = where.column * r.stride_x - r.pad_x
        included = r.include_pad != 0
        there = (where.planes[1] - where.planes[0]) * (where.rows[1] - where.rows[0])
        high = choose(included, padded_rows(r, where.place), there)
        inside = I64((1 << span) - 1) if where.columns is None else where.columns
        padded = low_bits(steps(r.w + r.far_pad_x, left, r.dilation_x, span), span)
        wide = choose(included, padded, inside)
        return [high * _set_bits((wide.unsigned >> t * stride) & ((1 << size) - 1)) for t in range(tile)]

    return tiles(tier, POOL, shape, sums_of)


def padded_rows(r: Any, place: Place) -> Value:
    """The planes by rows of a window that are inside of the padded image."""
    front, up = corner(r, place)
    planes = steps(r.d + r.far_pad_z, front, r.dilation_z, r.k_d)
    return planes * steps(r.h + r.far_pad_y, up, r.dilation_y, r.k_h)


def start(f32: Type, op: str) -> Value:
    """What a pool has before its first element."""
    return f32(float("-inf") if op == "max" else 0)


def joined(op: str, total: Value, x: Value) -> Value:
    """A pool with one more element x.

    max passes over NaN, wherever it is: -inf where there is nothing else.
    """
    match op:
        case "max":
            return larger(x, total)
        case "lp2":
            return fma(x, x, total)
        case "lp1":
            return total + abs(x)
    return total + x


def merged(op: str, total: Value, other: Value) -> Value:
    """Two pools of the same kind as one."""
    return joined(op, total, other) if op == "max" else total + other


def finished(op: str, total: Value, count: Value | None) -> Value:
    """The result of a pool; `count` (int64) elements count in an average."""
    if count is not None:
        return total / count.to(F32)
    return intrinsic("sqrt", total) if op == "lp2" else total


def _set_bits(x: Value) -> Value:
    return intrinsic("ctpop", x.signed)
