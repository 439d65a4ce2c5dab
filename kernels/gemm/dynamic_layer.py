"""dot and conv of bytes that dynamic.py rounds with s8 weights: exact i32 sums, stored as f32.

y = sum (x - zero) * (w - zero of w) * (scale * scale of w) + bias, where scale and zero are those of x's image, or row;
then as EPILOGUE says. rowsum: whether weights have zero points, for which each row of x is summed too.
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
from .pack_int8 import HEAD_LINES, sums_per_row
from .pick_int8 import COSTS
from .results import Place
from .rows import CONV_DYNAMIC, DOT_DYNAMIC, RANGE_BYTES
from .tile import Arithmetic


def make_dot(tier: Tier, nv: int, per_row: bool, rowsum: bool) -> Callable[..., None]:
    """The kernel for panels of nv vectors, and ranges of rows or of batches; its record is `rows.DOT_DYNAMIC`."""
    most = COSTS[rowsum].most_rows(tier, nv)
    return dot_kernel(tier, nv, most, _arithmetic(tier, nv, per_row, rowsum), DOT_DYNAMIC)


def make_conv(tier: Tier, nv: int, rowsum: bool) -> Callable[..., None]:
    """The kernel for panels of nv vectors; its record is `rows.CONV_DYNAMIC`."""
    most = COSTS[rowsum].most_rows(tier, nv)
    return conv_kernel(tier, nv, most, _arithmetic(tier, nv, False, rowsum), CONV_DYNAMIC)


def _arithmetic(tier: Tier, nv: int, per_row: bool, rowsum: bool) -> Arithmetic:
    """Of panels that pack_int8 packs with a bias, whose `start` is the sum of a column's weights less zero points.

    The record has rows.RANGES and EPILOGUE.
    """
    bytewise, count = int8_arithmetic(tier, nv, "words", rowsum), sums_per_row(nv, rowsum)
    head_lines = HEAD_LINES[rowsum] + 1

    def lines(v: Vector, place: Place, index: int, kind: Any) -> list[Any]:
        starts = [v.b.gep(place.panel, [I64((index * nv + n) * tier.lanes * 4)]) for n in range(nv)]
        return [v.b.load(v.b.bitcast(start, kind.as_pointer()), align=4) for start in starts]

    def finish(v: Vector, place: Place, sums: list[Any]) -> list[Any]:
        b, r = v.b, place.record
        first = b.add(b.mul(place.image, r.per_image), b.mul(place.row, r.per_row))
        start, step = b.add(r.ranges, b.mul(first, I64(RANGE_BYTES))), b.mul(r.per_row, I64(RANGE_BYTES))
        totals, scales = (lines(v, place, i, kind) for i, kind in enumerate((v.itype, v.type)))
        minus_zeros = lines(v, place, 2, v.itype) if rowsum else []
        biases = lines(v, place, head_lines - 1, v.type)

        def factors(row: int) -> tuple[list[Any], list[Any]]:
            at = b.inttoptr(b.add(start, b.mul(step, I64(row))), F32.as_pointer())
            scale, minus = v.broadcast(at), v.splat(b.load(b.bitcast(v.at(at, 1), I32.as_pointer())))
            return [b.mul(t, minus) for t in totals], [b.fmul(s, scale) for s in scales]

        same, reals = None if per_row else factors(0), []
        for row in range(place.rows):
            shifts, multipliers = same or factors(row)
            own = sums[row * count : (row + 1) * count]
            for n in range(nv):
                total = b.add(own[n], shifts[n])
                if rowsum:
                    total = b.add(total, b.mul(own[-1], minus_zeros[n]))
                reals.append(v.fma(b.sitofp(total, v.type), multipliers[n], biases[n]))
        return reals

    def start(v: Vector, panel: Any) -> list[Any]:
        return [v.iconst(0)] * count

    head = head_lines * nv * tier.lanes * 4
    return replace(bytewise, head=head, start=start, finish=finish, epilogue=True)
