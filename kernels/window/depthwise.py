"""f32 depthwise convolution, channels last, compiled for a width of the window and an output stride counted in taps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.tiers import Tier
from ..lang import BF16, F32, I64, Value, over, registers
from .pick import ROWS
from .rows import DEPTHWISE, rounds
from .tiles import Shape, Tile, tiles
from .window import add_column, constants, existing, nest, spread


def make_depthwise(tier: Tier, size: int, stride: int, tile: int, vectors: int, narrow: bool) -> Callable:
    """y[n, i, j, c] = epilogue(bias[c] + the sum of x[n, i stride_y + p dilation_y - pad_y, j stride_x + q dilation_x -
    pad_x, c] * weights[p, q, c] over the taps inside of the image); p < k_h, q < size, where stride_x is a divisor of
    stride * dilation_x.

    The sum runs over p, then q, from the bias on, each product fused into it where the tier can. narrow: x and y
    are bf16.
    """
    f32, shape = F32.vector(tier.lanes), Shape(size, stride, tile, vectors)
    kind = BF16.like(f32) if narrow else f32
    users = [[(t, q) for q in range(size) for t in range(tile) if t * stride + q == j] for j in range(shape.span)]

    def sums_of(r: Any, where: Tile) -> list[Value]:
        weights, bias = (F32.at(address) + where.place.channel for address in (r.weights, r.bias))
        sums = registers(constants(f32, bias, vectors) * tile)
        line, step = r.w * r.ldx * r.dilation_y, r.ldx * r.dilation_x

        def add_row(p: Any) -> None:
            """Add the taps of row p of the window."""
            taps: list[list[Value]] = []
            for j, pixel in enumerate(spread(where.x + line * p, step, shape.span)):
                if j < size:
                    taps.append(constants(f32, weights + r.c * (p * size + j), vectors))
                with existing(where.columns, j):
                    values = [kind[pixel + i * f32.lanes].to(F32) for i in range(vectors)]
                    add_column(sums, users[j], values, taps)

        if size == ROWS:
            first, end = where.rows
            bits = (I64(1) << end) - (I64(1) << first)
            for p in range(ROWS):
                with existing(bits, p):
                    add_row(p)
        else:
            for row in over(*where.rows):
                add_row(row)
        return sums.values()

    outputs = nest(DEPTHWISE, tiles(DEPTHWISE, kind, shape, sums_of))
    outputs.needs = rounds({"narrow": narrow})  # type: ignore[attr-defined]
    return outputs
