"""Maxima and averages of bytes over sliding windows, channels last; a mean over space is a window of all of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..core.record import fields, reader
from ..isa.integer import to_bytes
from ..isa.interleave import load_bytes, store_some, unpack
from ..isa.tiers import Tier
from ..lang import (
    F32,
    F64,
    I8,
    I16,
    I32,
    U8,
    Value,
    cases,
    choose,
    divide,
    intrinsic,
    over,
    register,
    registers,
    remainder,
    share,
    smaller,
    tier,
    traced,
)
from .pick_pool_int8 import BLOCK
from .rows import POOL_INT8
from .window import steps

_LARGE = 2.0**127
UNROLLED = (2, 3, 5)
"""Square windows."""
RUN = 256
"""Bytes whose sum fits into 16 bits."""


def make_pool(tier: Tier, op: str) -> Callable:
    """y[n, i, j, c] = clamp of the largest, or of rint((sum - count * zero_x) * f32(ratio / count)) + zero_y, of the
    x[n, i*stride_y + p*dilation_y - pad_y, j*stride_x + q*dilation_x - pad_x, c] inside of the image.

    op: "max" or "sum"; count: 1 of a sum, of an average the elements, or the places of the padded image where its slots
    say so. What is of UNROLLED sizes inside of the image is unrolled.
    """
    read, width = reader(POOL_INT8), 4 * tier.lanes

    @traced
    def output(args: Value, x: Value, y: Value, channels: Any, taps: Any, count: Any) -> None:
        """The channels from channels[0] to channels[1] of an output whose window's rows taps[0] to taps[1] and columns
        taps[2] to taps[3] are inside of the image.
        """
        r = fields(args, POOL_INT8, constant=True)
        top, bottom, left, right = taps
        high, wide = bottom - top, right - left
        pool: Any = _Maximum(r) if op == "max" else _Sum(r, high * wide, count)
        down, across = r.w * r.ldx * r.dilation_y, r.ldx * r.dilation_x

        def unrolled(source: Value, size: int) -> None:
            source = source + (down * top + across * left)
            for p in range(size):
                for q in range(size):
                    pool.add(source + (down * p + across * q))
            pool.flush()

        def some(source: Value) -> None:
            for p in over(top, bottom):
                line = source + down * p
                for start in over(left, right, RUN):
                    for q in over(start, smaller(start + RUN, right)):
                        pool.add(line + across * q)
                    pool.flush()

        first, end = channels
        for at in over(first, end, width):
            channel = choose(r.c > width, smaller(at, r.c - width), 0)
            source, target = (U8.at(address + channel) for address in (x, y))
            pool.clear()
            square = choose(high == wide, high, 0)
            cases(square, {size: partial(unrolled, source, size) for size in UNROLLED}, partial(some, source))
            store_some(pool.result(), target, r.c)

    def run(args, thread, threads):
        r = read(args)
        blocks = divide(r.c + (BLOCK - 1), BLOCK)
        units = r.n * r.out_h * blocks
        start, stop = share(units, thread, threads)
        for unit in range(start, stop):
            line = divide(unit, blocks)
            first = (unit - line * blocks) * BLOCK
            end = smaller(first + BLOCK, r.c)
            row = remainder(line, r.out_h)
            up = row * r.stride_y - r.pad_y
            top, bottom = steps(0, up, r.dilation_y, r.k_h), steps(r.h, up, r.dilation_y, r.k_h)
            source = r.x + (divide(line, r.out_h) * r.h + up) * r.w * r.ldx
            target = r.y + line * r.out_w * r.ldy
            for column in range(r.out_w):
                left = column * r.stride_x - r.pad_x
                first_tap, last_tap = steps(0, left, r.dilation_x, r.k_w), steps(r.w, left, r.dilation_x, r.k_w)
                count = (bottom - top) * (last_tap - first_tap) if r.average else 1
                if r.include_pad:
                    count = steps(r.end_y, up, r.dilation_y, r.k_h) * steps(r.end_x, left, r.dilation_x, r.k_w)
                taps = top, bottom, first_tap, last_tap
                output(args, source + left * r.ldx, target, (first, end), taps, count)
                target += r.ldy

    return run


class _Maximum:
    """The largest of the bytes added, held within bounds."""

    def __init__(self, r: Any) -> None:
        u8 = U8.vector(4 * tier().lanes)
        self.best, self.none = register(u8(0)), u8(0)
        self.low, self.high = (u8(bound.to(I8).unsigned) for bound in (r.low, r.high))

    def clear(self) -> None:
        self.best.value = self.none

    def add(self, pointer: Value) -> None:
        self.best.value = intrinsic("umax", self.best.value, load_bytes(pointer).unsigned)

    def flush(self) -> None:
        pass

    def result(self) -> Value:
        return intrinsic("umin", intrinsic("umax", self.best.value, self.low), self.high)


class _Sum:
    """The sum of the bytes added, at most RUN of them from flush to flush, scaled."""

    def __init__(self, r: Any, elements: Value, count: Value) -> None:
        lanes = tier().lanes
        self.i16, self.i32, self.zero = I16.vector(2 * lanes), I32.vector(lanes), U8.vector(4 * lanes)(0)
        self.halves = registers([self.i16(0)] * 2)
        self.sums = registers([self.i32(0)] * 4)
        factor = r.ratio.bits(F64) / count.to(F64)
        # An infinite factor would make NaN of a sum of 0.
        self.factor = F32.vector(lanes)(smaller(factor, _LARGE).to(F32))
        self.shift = self.i32((elements * r.zero_x).to(I32))
        self.rounded = to_bytes(r.zero_point, r.low, r.high)

    def clear(self) -> None:
        for i in range(len(self.sums)):
            self.sums[i] = self.i32(0)

    def add(self, pointer: Value) -> None:
        x = load_bytes(pointer)
        for i in range(len(self.halves)):
            self.halves[i] += unpack(x, self.zero, bool(i)).bits(I16)

    def flush(self) -> None:
        for i in range(len(self.sums)):
            self.sums[i] += unpack(self.halves[i // 2], self.i16(0), bool(i % 2)).bits(I32)
        for i in range(len(self.halves)):
            self.halves[i] = self.i16(0)

    def result(self) -> Value:
        sums = [total - self.shift for total in self.sums.values()]
        return self.rounded([total.to(F32) * self.factor for total in sums])
