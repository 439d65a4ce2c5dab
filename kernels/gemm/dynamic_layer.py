"""dot and conv of bytes that dynamic_round.py rounded with s8 weights: exact i32 sums, stored as f32.

y = sum (x - zero) * (w - zero of w) * (scale * scale of w) + bias, with the scale and zero of x's image, or row; then
EPILOGUE. rowsum: weights have zero points, for which each row of x is summed, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..isa.tiers import Tier
from ..lang import F32, I32, Type, Value, fma
from .conv import conv_kernel
from .dot import dot_kernel
from .int8_arithmetic import int8_arithmetic
from .pack_int8 import HEAD_LINES, sums_per_row
from .pick_int8 import Sums
from .results import Destination
from .rows import CONV_DYNAMIC, DOT_DYNAMIC, RANGE_BYTES
from .tile import Arithmetic


def make_dot(tier: Tier, nv: int, per_row: bool, rowsum: bool, narrow: bool, small: bool) -> Callable[..., None]:
    """The kernel for panels of nv vectors, and ranges per row or per batch; its record is `rows.DOT_DYNAMIC`."""
    return dot_kernel(tier, _arithmetic(tier, nv, per_row, Sums("words", rowsum, small), narrow), DOT_DYNAMIC)


def make_conv(tier: Tier, nv: int, rowsum: bool, small: bool) -> Callable[..., None]:
    """The kernel for panels of nv vectors; its record is `rows.CONV_DYNAMIC`."""
    return conv_kernel(tier, _arithmetic(tier, nv, False, Sums("words", rowsum, small)), CONV_DYNAMIC)


def _arithmetic(tier: Tier, nv: int, per_row: bool, sums: Sums, narrow: bool = False) -> Arithmetic:
    """For panels of pack_int8 with a bias, whose `start` is the sum of a column's weights less zero points.

    The record has rows.RANGES and EPILOGUE.
    """
    rowsum = sums.rowsum
    bytewise, count = int8_arithmetic(tier, nv, sums, narrow), sums_per_row(nv, rowsum)
    head_lines = HEAD_LINES[rowsum] + 1
    f32, i32 = F32.vector(tier.lanes), I32.vector(tier.lanes)

    def line(dest: Destination, index: int, kind: Type) -> list[Value]:
        return [kind[dest.panel + (index * nv + n) * kind.size] for n in range(nv)]

    def finish(dest: Destination, sums: list[Value]) -> list[Value]:
        r = dest.record
        first = dest.image * r.per_image + dest.row * r.per_row
        start, step = r.ranges + first * RANGE_BYTES, r.per_row * RANGE_BYTES
        totals, scales = line(dest, 0, i32), line(dest, 1, f32)
        minus_zeros = line(dest, 2, i32) if rowsum else []
        biases = line(dest, head_lines - 1, f32)

        def factors(row: int) -> tuple[list[Value], list[Value]]:
            at = F32.at(start + step * row)
            scale, minus = f32(at[0]), i32(I32[at + 1])
            return [t * minus for t in totals], [s * scale for s in scales]

        same, reals = None if per_row else factors(0), []
        for row in range(dest.rows):
            shifts, multipliers = same or factors(row)
            own = sums[row * count : (row + 1) * count]
            for n in range(nv):
                total = own[n] + shifts[n]
                if rowsum:
                    total = total + own[-1] * minus_zeros[n]
                reals.append(fma(total.to(F32), multipliers[n], biases[n]))
        return reals

    def start(panel: Value) -> list[Value]:
        return [i32(0)] * count

    head = (head_lines + sums.small) * nv * f32.size
    return replace(bytewise, head=head, start=start, finish=finish, epilogue=True)
