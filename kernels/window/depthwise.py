"""f32 depthwise convolution, channels last, for one width of window and one distance of outputs in taps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.tiers import Tier
from ..lang import I64, Type, Value, fma, over, registers, settle
from .pick import ROWS
from .rows import DEPTHWISE
from .tiles import Shape, Tile, tiles
from .window import constants, existing, f32_at, spread


def make_depthwise(tier: Tier, size: int, stride: int, tile: int, vectors: int) -> Callable:
    """y[n, i, j, c] is what the epilogue makes of the sum of bias[c] and all
    x[n, i stride_y + p dilation_y - pad_y, j stride_x + q dilation_x - pad_x, c] * weights[p, q, c] in the image;
    p < k_h, q < size, where stride_x is a divisor of stride * dilation_x.

    The sum runs over p, then q, from the bias on, each product fused into it where the tier can.
    """
    shape = Shape(size, stride, tile, vectors)
    users = [[(t, q) for q in range(size) for t in range(tile) if t * stride + q == j] for j in range(shape.span)]

    def sums_of(f32: Type, r: Any, where: Tile) -> list[Value]:
        weights, bias = (f32_at(address, where.place.channel) for address in (r.weights, r.bias))
        sums = registers(constants(f32, bias, vectors) * tile)
        line, step = r.w * r.ldx * r.dilation_y, r.ldx * r.dilation_x

        def add_taps(p: Any) -> None:
            """Add the taps of row p of the window."""
            taps: list[list[Value]] = []
            for j, pixel in enumerate(spread(where.x + line * p, step, shape.span)):
                if j < size:
                    taps.append(constants(f32, weights + r.c * (p * size + j), vectors))
                with existing(where.columns, j):
                    values = [f32[pixel + i * f32.lanes] for i in range(vectors)]
                    for t, q in users[j]:
                        for i, x in enumerate(values):
                            at = t * vectors + i
                            sums[at] = fma(x, taps[q][i], sums[at])
                    if vectors > 1:
                        settle(sums, [t * vectors + i for t, _ in users[j] for i in range(vectors)])

        if size == ROWS:
            begin, end = where.rows
            bits = (I64(1) << end) - (I64(1) << begin)
            for row in range(ROWS):
                with existing(bits, row):
                    add_taps(I64(row))
        else:
            for p in over(*where.rows):
                add_taps(p)
        return sums.values()

    return tiles(tier, DEPTHWISE, shape, sums_of)
