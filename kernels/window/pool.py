"""f32 pooling, channels last, for one width of window and one distance of outputs in taps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.loops import loop, variable
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector
from .rows import POOL
from .tiles import Tile, tiles
from .window import Place, existing, low_bits, spread, steps


def make_pool(tier: Tier, op: str, size: int, stride: int) -> Callable:
    """y[n, i, j, c] is what the epilogue makes of `op` over all
    x[n, i*sh + p*dh - pad_top, j*sw + q*dw - pad_left, c] inside of the image; p < kh, q < size, where sw is a divisor
    of stride * dw. Planes come before rows likewise.

    An average divides by their number, with `include_pad` by that of the places inside of the padded image.
    Columns are pooled first, then their results from left to right.
    """
    tile = min(7, (tier.registers - 2 - size) // stride + 1)
    span = (tile - 1) * stride + size

    def emit_sums(v: Vector, r: Any, where: Tile) -> list[Any]:
        b = v.b
        totals = [variable(b, start(v, op)) for _ in range(span)]
        across = b.mul(r.w, r.ldx)
        assert where.planes is not None
        with loop(b, *where.planes, 1) as z, loop(b, *where.rows, 1) as p:
            row = b.add(b.mul(b.mul(r.h, r.dd), z), b.mul(r.dh, p))
            line = v.at(where.x, b.mul(across, row))
            for j, pixel in enumerate(spread(b, line, b.mul(r.ldx, r.dw), span)):
                with existing(b, where.columns, j):
                    b.store(joined(v, op, b.load(totals[j]), v.load(pixel)), totals[j])
        high, wide = counted(v, r, where) if op == "average" else (None, None)
        results = []
        for t in range(tile):
            result, *rest = (b.load(totals[t * stride + q]) for q in range(size))
            for total in rest:
                result = merged(v, op, result, total)
            count = None
            if op == "average":
                window = b.and_(b.lshr(wide, I64(t * stride)), I64((1 << size) - 1))
                count = b.mul(high, _set_bits(v, window))
            results.append(finished(v, op, result, count))
        return results

    def counted(v: Vector, r: Any, where: Tile) -> tuple[Any, Any]:
        """How many rows of the windows, in all planes, count in an average, and a bit for each column that does."""
        b = v.b
        assert where.planes is not None
        left = b.sub(b.mul(where.column, r.sw), r.pad_left)
        included = b.icmp_signed("!=", r.include_pad, I64(0))
        there = b.mul(*(b.sub(end, begin) for begin, end in (where.planes, where.rows)))
        rows = b.select(included, padded_rows(b, r, where.place), there)
        inside = I64((1 << span) - 1) if where.columns is None else where.columns
        padded = low_bits(b, steps(b, b.add(r.w, r.pad_right), left, r.dw, I64(span)), I64(span))
        return rows, b.select(included, padded, inside)

    return tiles(tier, POOL, size, stride, tile, 1, emit_sums, deep=True)


def padded_rows(b: Any, r: Any, place: Place) -> Any:
    """The planes by rows of a window that are inside of the padded image."""
    front = b.sub(b.mul(b.udiv(place.row, r.oh), r.sd), r.pad_front)
    up = b.sub(b.mul(b.urem(place.row, r.oh), r.sh), r.pad_top)
    planes = steps(b, b.add(r.d, r.pad_back), front, r.dd, r.kd)
    return b.mul(planes, steps(b, b.add(r.h, r.pad_bottom), up, r.dh, r.kh))


def start(v: Vector, op: str) -> Any:
    """What a pool has before its first element."""
    return v.const(float("-inf") if op == "max" else 0)


def joined(v: Vector, op: str, total: Any, x: Any) -> Any:
    """A pool with one more element x.

    max passes over NaN, wherever it is: -inf where there is nothing else.
    """
    if op == "max":
        return v.b.select(v.b.fcmp_ordered(">", x, total), x, total)
    if op == "lp2":
        return v.fma(x, x, total)
    return v.b.fadd(total, v.call("fabs", x) if op == "lp1" else x)


def merged(v: Vector, op: str, total: Any, other: Any) -> Any:
    """Two pools of the same kind as one."""
    return joined(v, op, total, other) if op == "max" else v.b.fadd(total, other)


def finished(v: Vector, op: str, total: Any, count: Any) -> Any:
    """The result of a pool; `count` (int64) elements count in an average."""
    if op == "average":
        return v.b.fdiv(total, v.splat(v.b.sitofp(count, v.type.element)))
    return v.call("sqrt", total) if op == "lp2" else total


def _set_bits(v: Vector, bits: Any) -> Any:
    return v.b.call(v.declare("llvm.ctpop.i64", I64, [I64]), [bits])
