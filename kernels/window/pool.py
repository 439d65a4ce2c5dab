"""f32 pooling, channels last, for one window size and stride."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ..isa.loops import loop, variable
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector
from ..pointwise.chain import Chain
from .pick import POOL_BLOCK
from .rows import POOL
from .window import Place, existing, finisher, low_bits, nest, slots, spread

OPS = ("max", "average", "lp1", "lp2")


def start(v: Vector, op: str) -> Any:
    """What a pool has before its first element."""
    return v.const(float("-inf") if op == "max" else 0)


def joined(v: Vector, op: str, total: Any, x: Any) -> Any:
    """A pool with one more element x.

    max of a window with some NaN is NaN or the largest number, depending on where the NaN is, as in
    onnxruntime; and NaN when there is nothing else.
    """
    if op == "max":
        return v.b.select(v.b.fcmp_ordered(">", total, x), total, x)
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


def make_pool(
    tier: Tier,
    op: str,
    kh: int,
    kw: int,
    sh: int,
    sw: int,
    tile: int,
    include_pad: bool = False,
    chain: Chain = (),
    extras: Sequence[str] = (),
) -> Callable:
    """y[n, i, j, c] = chain(op of the x[n, i*sh + p - pad_top, j*sw + q - pad_left, c] inside of the image,
    extras...).

    An average divides by their number, with `include_pad` by that of the places inside of the padded image.
    Columns are pooled first, then their results from left to right.
    """
    span = (tile - 1) * sw + kw
    finish = finisher(tier, tile, 1, chain, extras, POOL)

    def emit_tile(b: Any, place: Place) -> None:
        v = Vector(b, tier)
        r = slots(b, place.args, POOL)
        totals = [variable(b, start(v, op)) for _ in range(span)]
        with loop(b, 0, kh, 1) as p, existing(b, place.rows, p):
            line = v.at(v.pointer(place.x), b.mul(b.mul(r.w, r.ldx), p))
            for j, pixel in enumerate(spread(b, line, r.ldx, span)):
                with existing(b, place.columns, j):
                    b.store(joined(v, op, b.load(totals[j]), v.load(pixel)), totals[j])

        high, wide = place.rows, I64((1 << span) - 1) if place.columns is None else place.columns
        if include_pad:
            high = _padded(b, (r.h, r.pad_top, r.pad_bottom), b.mul(place.row, I64(sh)), kh)
            wide = _padded(b, (r.w, r.pad_left, r.pad_right), b.mul(place.column, I64(sw)), span)
        results = []
        for t in range(tile):
            result, *rest = (b.load(totals[t * sw + q]) for q in range(kw))
            for total in rest:
                result = merged(v, op, result, total)
            count = None
            if op == "average":
                window = b.and_(b.lshr(wide, I64(t * sw)), I64((1 << kw) - 1))
                count = b.mul(_set_bits(v, high), _set_bits(v, window))
            results.append(finished(v, op, result, count))
        finish(b, place, results, b.add(b.mul(place.row, r.ow), place.column), b.sub(r.c, place.channel))

    return nest(emit_tile, tier.lanes, (kh, kw), (sh, sw), tile, POOL_BLOCK // tier.lanes)


def _padded(b: Any, extents: Sequence[Any], begin: Any, reach: int) -> Any:
    """A bit for each of `reach` places from `begin` on: whether it is in the padded image of these extents."""
    return low_bits(b, b.sub(reduce(b.add, extents), begin), I64(reach))


def _set_bits(v: Vector, bits: Any) -> Any:
    return v.b.call(v.declare("llvm.ctpop.i64", I64, [I64]), [bits])
