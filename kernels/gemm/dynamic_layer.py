"""dot and conv of bytes that dynamic.py rounds with s8 weights: exact i32 sums, stored as f32.

y = sum (x - zero) * w * (scale * scale of w) + bias, where scale and zero are those of x's image, or row; then as
EPILOGUE says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..isa.tiers import Tier
from ..isa.vector import F32, I32, I64, Vector
from .conv import conv_kernel
from .dot import dot_kernel
from .int8 import int8_arithmetic
from .pick_int8 import COSTS
from .results import Place
from .rows import CONV_DYNAMIC, DOT_DYNAMIC, RANGE_BYTES
from .tile import Arithmetic

HEAD_LINES = 3
"""Of a panel: the sums of its columns' weights (i32), their scales, the bias (f32)."""


def make_dot(tier: Tier, nv: int, per_row: bool) -> Callable[..., None]:
    """The kernel for panels of nv vectors, and ranges of rows or of batches; its record is `rows.DOT_DYNAMIC`."""
    most = COSTS[False].most_rows(tier, nv)
    return dot_kernel(tier, nv, most, _arithmetic(tier, nv, per_row), DOT_DYNAMIC)


def make_conv(tier: Tier, nv: int) -> Callable[..., None]:
    """The kernel for panels of nv vectors; its record is `rows.CONV_DYNAMIC`."""
    most = COSTS[False].most_rows(tier, nv)
    return conv_kernel(tier, nv, most, _arithmetic(tier, nv, False), CONV_DYNAMIC)


def _arithmetic(tier: Tier, nv: int, per_row: bool) -> Arithmetic:
    """The record has rows.RANGES and EPILOGUE."""
    bytewise = int8_arithmetic(tier, nv, "words", False)

    def lines(v: Vector, place: Place, index: int, kind: Any) -> list[Any]:
        starts = [v.b.gep(place.panel, [I64((index * nv + n) * tier.lanes * 4)]) for n in range(nv)]
        return [v.b.load(v.b.bitcast(start, kind.as_pointer()), align=4) for start in starts]

    def finish(v: Vector, place: Place, sums: list[Any]) -> list[Any]:
        b, r = v.b, place.record
        first = b.add(b.mul(place.image, r.per_image), b.mul(place.row, r.per_row))
        start, step = b.add(r.ranges, b.mul(first, I64(RANGE_BYTES))), b.mul(r.per_row, I64(RANGE_BYTES))
        totals, scales, biases = (lines(v, place, i, kind) for i, kind in enumerate((v.itype, v.type, v.type)))

        def factors(row: int) -> tuple[list[Any], list[Any]]:
            at = b.inttoptr(b.add(start, b.mul(step, I64(row))), F32.as_pointer())
            scale, minus = v.broadcast(at), v.splat(b.load(b.bitcast(v.at(at, 1), I32.as_pointer())))
            return [b.mul(t, minus) for t in totals], [b.fmul(s, scale) for s in scales]

        same, reals = None if per_row else factors(0), []
        for row in range(place.rows):
            shifts, multipliers = same or factors(row)
            for n in range(nv):
                total = b.sitofp(b.add(sums[row * nv + n], shifts[n]), v.type)
                reals.append(v.fma(total, multipliers[n], biases[n]))
        return reals

    def start(v: Vector, panel: Any) -> list[Any]:
        return [v.iconst(0)] * nv

    head = HEAD_LINES * nv * tier.lanes * 4
    return replace(bytewise, head=head, start=start, finish=finish, epilogue=True)
