"""Depthwise convolution of bytes for any window of two dimensions, one output channel per input channel.

As depthwise_int8.py, rows of the window are interleaved four (or two) at a time, but for one output and one column of
the window: any strides and dilations will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import fields, reader
from ..gemm.requantize import byte_rounder
from ..isa.interleave import dot, interleave, load_bytes, store_some
from ..isa.lanes import PARTS
from ..isa.tiers import Tier
from ..lang import (
    F32,
    I32,
    U8,
    Type,
    Value,
    below,
    choose,
    divide,
    over,
    pieces,
    registers,
    remainder,
    share,
    smaller,
    traced,
)
from .pick_depthwise_int8 import group_of
from .rows import DEPTHWISE_INT8_WINDOW


def make_depthwise_window(tier: Tier, wide: bool) -> Callable:
    """Vectors of `4 * lanes` channels of a pixel. wide: weights of 16 bits."""
    read, width, group = reader(DEPTHWISE_INT8_WINDOW), 4 * tier.lanes, group_of(wide)
    f32, i32 = F32.vector(tier.lanes), I32.vector(tier.lanes)
    tile, term = (4 if tier.registers >= 32 else 2), PARTS * width

    def constants(first: Value, kind: Type) -> list[Value]:
        return [kind[U8.at(first + part * width)] for part in range(PARTS)]

    @traced
    def outputs(args: Value, image: Value, row: Value, block: Value, at: Any) -> None:
        """Those of a row of y from `at` on: `tile`, or what there is."""
        r = fields(args, DEPTHWISE_INT8_WINDOW, constant=True)
        channel = smaller(block * width, choose(r.c > width, r.c - width, 0))
        groups = pieces(r.k_h, group)
        packed = r.packed + block * ((groups * r.k_w + 2) * term)
        up, left = row * r.stride_y - r.pad_y, at * r.stride_x - r.pad_x
        plane = r.x + channel
        sums = [registers(constants(packed, i32)) for _ in range(tile)]
        for g in over(groups):
            ys = [up + (g * group + k) * r.dilation_y for k in range(group)]
            lines = [plane + (image * r.h + y) * r.w * r.ldx for y in ys]
            exist = [below(y, r.h) for y in ys]
            for q in over(r.k_w):
                weights = constants(packed + (g * r.k_w + q + 2) * term, i32)
                for t in range(tile):
                    column = left + (q * r.dilation_x + r.stride_x * t)
                    inside, skip = below(column, r.w), column * r.ldx
                    places = [
                        choose(there & inside, line + skip, r.fill) for line, there in zip(lines, exist, strict=True)
                    ]
                    parts = interleave([load_bytes(U8.at(place)) for place in places])
                    for i in range(PARTS):
                        sums[t][i] = dot(sums[t][i], parts[i], weights[i], wide)
        rounded, factors = byte_rounder(r), constants(packed + term, f32)
        first = (image * r.out_h + row) * r.out_w + at
        for t in reversed(range(tile)):
            # What is no output goes to the place of the first, which is written after it.
            there = choose(at + t < r.out_w, t, 0)
            place = r.y + channel + (first + there) * r.ldy
            reals = [sums[t][i].to(F32) * factors[i] for i in range(PARTS)]
            store_some(rounded(reals), U8.at(place), r.c)

    def run(args, thread, threads):
        r = read(args)
        blocks = divide(r.c + (width - 1), width)
        start, stop = share(r.n * r.out_h * blocks, thread, threads)
        for unit in range(start, stop):
            line = divide(unit, blocks)
            image = divide(line, r.out_h)
            for at in range(0, r.out_w, tile):
                outputs(args, image, remainder(line, r.out_h), unit - line * blocks, at)

    return run
