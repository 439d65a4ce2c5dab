"""Depthwise convolution of bytes for any window of two dimensions, one output channel per input channel.

As depthwise_int8.py, rows of the window are interleaved four (or two) at a time, of one column after the other. The
outputs of a tile are so far apart that their windows begin a whole number of taps apart, and share columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..gemm.requantize import byte_rounder
from ..isa.interleave import dot, interleave
from ..isa.lanes import PARTS
from ..isa.stores import store_some
from ..isa.tiers import Tier
from ..lang import F32, I32, U8, Value, below, choose, divide, over, pieces, registers, remainder, smaller, when
from .depthwise_int8 import constants, lines_at, scaled
from .pick_depthwise_int8 import group_of
from .rows import DEPTHWISE_INT8
from .window import Place, nest, slots, within


def make_depthwise_window(tier: Tier, wide: bool) -> Callable:
    """Vectors of `4 * lanes` channels of a pixel. wide: weights of 16 bits."""
    width, group = 4 * tier.lanes, group_of(wide)
    f32, i32, u8 = F32.vector(tier.lanes), I32.vector(tier.lanes), U8.vector(width)
    tile = 4 if tier.registers >= 32 else 2

    def row_of_outputs(place: Place) -> None:
        r = slots(place.args, DEPTHWISE_INT8)
        apart = choose(remainder(r.stride_x, r.dilation_x) == 0, 1, r.dilation_x)
        left, right = place.columns
        for first in over(left, smaller(left + apart, right)):
            for at in over(first, right, apart * tile):
                outputs(r, place, at, apart, divide(r.stride_x * apart, r.dilation_x))

    def outputs(r: Any, place: Place, at: Value, apart: Value, step: Value) -> None:
        """Compute outputs of a row of y from column `at` on, each `apart` columns and `step` taps from the one before:
        `tile` of them, or those that are left."""
        image, row, channel = place.image, place.row, within(place.channel, r.c, width)
        groups = pieces(r.k_h, group)
        packed = r.packed + place.channel * ((groups * r.k_w + 2) * PARTS)
        up, left = row * r.stride_y - r.pad_y, at * r.stride_x - r.pad_x
        sums = [registers(constants(i32, packed, 0)) for _ in range(tile)]
        for g in over(groups):
            lines = lines_at(r, image, [up + (g * group + k) * r.dilation_y for k in range(group)], channel)
            for j in over(r.k_w + step * (tile - 1)):
                column = left + j * r.dilation_x
                inside, skip = below(column, r.w), column * r.ldx
                places = [choose(there & inside, line + skip, r.fill) for line, there in lines]
                x = interleave([u8[place] for place in places])
                for t in range(tile):
                    q = j - step * t
                    with when(below(q, r.k_w)):
                        weights = constants(i32, packed, g * r.k_w + q + 2)
                        for part in range(PARTS):
                            sums[t][part] = dot(sums[t][part], x[part], weights[part], wide)
        rounded, factors = byte_rounder(r), constants(f32, packed, 1)
        first = (image * r.out_h + row) * r.out_w + at
        for t in reversed(range(tile)):
            # What is no output goes to the place of the first, which is written after it.
            there = choose(at + apart * t < place.columns[1], apart * t, 0)
            target = r.y + channel + (first + there) * r.ldy
            store_some(rounded(scaled(sums[t].values(), factors)), U8.at(target), r.c)

    return nest(DEPTHWISE_INT8, row_of_outputs)
