"""Maxima and averages of bytes over sliding windows, channels last; a mean over space is a window of all of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..isa.integer import to_bytes
from ..isa.interleave import unpack
from ..isa.stores import store_some
from ..isa.tiers import Tier
from ..lang import (
    F32,
    F64,
    I32,
    U8,
    U16,
    Type,
    Value,
    cases,
    choose,
    intrinsic,
    over,
    register,
    registers,
    smaller,
    when,
)  # fmt: skip
from .pool import columns_counted, rows_counted
from .rows import POOL_INT8
from .window import Place, Range, nest, slots, steps_inside, taps_inside

_LARGE = 2.0**127
UNROLLED = (2, 3, 5)
"""Square windows."""
RUN = 256
"""Bytes whose sum fits into 16 bits."""


def make_pool(tier: Tier, op: str) -> Callable:
    """y[n, i, j, c] = clamp of the largest, or of rint((sum - count * zero_x) * f32(ratio / count)) + zero_y, of the
    x[n, i*stride_y + p*dilation_y - pad_y, j*stride_x + q*dilation_x - pad_x, c] inside of the image, whose depth is 1.

    op: "max" or "sum"; count: 1 of a sum, of an average the elements, or the places of the padded image where its slots
    say so. What is of UNROLLED sizes inside of the image is unrolled.
    """
    width = 4 * tier.lanes
    u8 = U8.vector(width)

    def row_of_outputs(place: Place) -> None:
        r = slots(place.args, POOL_INT8)
        begin, planes, rows = taps_inside(r, place, U8.size)
        y = r.y + (place.image * r.out_h + place.row) * r.out_w * r.ldy
        for column in over(r.out_w):
            left = column * r.stride_x - r.pad_x
            columns = steps_inside(r.w, left, r.dilation_x, r.k_w)
            elements = (rows[1] - rows[0]) * (columns[1] - columns[0])
            count = register(choose(r.average != 0, elements, 1))
            with when(r.include_pad != 0):
                count.value = rows_counted(r, place, planes, rows) * columns_counted(r, left)
            pool = _Maximum(u8, r) if op == "max" else _Sum(u8, r, elements, count.value)
            output(r, place, pool, begin + left * r.ldx, y + column * r.ldy, rows, columns)

    def output(r: Any, place: Place, pool: Any, x: Value, y: Value, rows: Range, columns: Range) -> None:
        down, right = r.w * r.ldx * r.dilation_y, r.ldx * r.dilation_x

        def unrolled(source: Value, size: int) -> None:
            source = source + (down * rows[0] + right * columns[0])
            for p in range(size):
                for q in range(size):
                    pool.add(u8[source + (down * p + right * q)])
            pool.flush()

        def some(source: Value) -> None:
            for p in over(*rows):
                line = source + down * p
                for start in over(*columns, RUN):
                    for q in over(start, smaller(start + RUN, columns[1])):
                        pool.add(u8[line + right * q])
                    pool.flush()

        for at in over(place.channel, place.end, width):
            channel = choose(r.c > width, smaller(at, r.c - width), 0)
            source, target = (U8.at(address + channel) for address in (x, y))
            pool.clear()
            bodies = {size: partial(unrolled, source, size) for size in UNROLLED}
            high, wide = (end - begin for begin, end in (rows, columns))
            cases(choose(high == wide, high, 0), bodies, partial(some, source))
            store_some(pool.result(), target, r.c)

    return nest(POOL_INT8, row_of_outputs)


class _Maximum:
    """The largest of the bytes added, held within bounds."""

    def __init__(self, u8: Type, r: Any) -> None:
        self.best = register(u8(0))
        self.low, self.high = (u8(bound.to(U8)) for bound in (r.low, r.high))

    def clear(self) -> None:
        self.best.value = 0

    def add(self, x: Value) -> None:
        self.best.value = intrinsic("umax", self.best.value, x)

    def flush(self) -> None:
        pass

    def result(self) -> Value:
        return intrinsic("umin", intrinsic("umax", self.best.value, self.low), self.high)


class _Sum:
    """The sum of the bytes added, at most RUN of them from flush to flush, scaled."""

    def __init__(self, u8: Type, r: Any, elements: Value, count: Value) -> None:
        u16, i32 = U16.vector(u8.lanes // 2), I32.vector(u8.lanes // 4)
        self.zero, self.none = u8(0), u16(0)
        self.halves = registers([self.none] * 2)
        self.sums = registers([i32(0)] * 4)
        # An infinite factor would make NaN of a sum of 0.
        self.factor = F32.like(i32)(smaller(r.ratio.bits(F64) / count.to(F64), _LARGE).to(F32))
        self.shift = i32((elements * r.zero_x).to(I32))
        self.rounded = to_bytes(r.zero_point, r.low, r.high)

    def clear(self) -> None:
        for k in range(4):
            self.sums[k] = 0

    def add(self, x: Value) -> None:
        for k in range(2):
            part = unpack(x, self.zero, bool(k)).bits(U16)
            self.halves[k] = self.halves[k] + part

    def flush(self) -> None:
        for k in range(4):
            part = unpack(self.halves[k // 2], self.none, bool(k % 2)).bits(I32)
            self.sums[k] = self.sums[k] + part
        for k in range(2):
            self.halves[k] = self.none

    def result(self) -> Value:
        sums = [total - self.shift for total in self.sums.values()]
        return self.rounded([total.to(F32) * self.factor for total in sums])  # type: ignore[no-any-return]
