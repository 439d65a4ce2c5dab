"""f32 convolution of each channel or of few together, channels last, compiled for a width of the window and an output
stride counted in taps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.table import rounds
from ..isa.tiers import Tier
from ..lang import BF16, F32, I64, Type, Value, over, registers, shuffle
from .pick import ROWS
from .rows import DEPTHWISE, GROUPED
from .tiles import Shape, Tile, tiles
from .window import add_column, constants, existing, nest, spread


def make_depthwise(tier: Tier, size: int, stride: int, tile: int, vectors: int, narrow: bool) -> Callable:
    """y[n, i, j, c] = epilogue(bias[c] + the sum of x[n, i stride_y + p dilation_y - pad_y, j stride_x + q dilation_x -
    pad_x, c] * weights[p, q, c] over the taps inside of the image); p < k_h, q < size, where stride_x is a divisor of
    stride * dilation_x.

    The sum runs over p, then q, from the bias on, each product fused into it where the tier can. narrow: x and y
    are bf16.
    """
    f32 = F32.vector(tier.lanes)
    kind = BF16.like(f32) if narrow else f32
    outputs = nest(DEPTHWISE, tiles(DEPTHWISE, kind, *_sums(f32, kind, Shape(size, stride, tile, vectors), 1)))
    outputs.needs = rounds({"narrow": narrow})  # type: ignore[attr-defined]
    return outputs


def make_grouped(tier: Tier, size: int, stride: int, tile: int, group: int) -> Callable:
    """As make_depthwise, where each of `group` neighboring output channels reads all of these channels of x, by
    weights[p, q, i, c] of the group's channel i; the sum runs over i within q.
    """
    f32 = F32.vector(tier.lanes)
    return nest(GROUPED, tiles(GROUPED, f32, *_sums(f32, f32, Shape(size, stride, tile), group)))


def _sums(f32: Type, kind: Type, shape: Shape, group: int) -> tuple[Shape, Callable[[Any, Tile], list[Value]]]:
    """The shape of tiles of `kind` in memory, and what sums them."""
    size, stride, tile, vectors = shape
    users = [[(t, q) for q in range(size) for t in range(tile) if t * stride + q == j] for j in range(shape.span)]

    def sums_of(r: Any, where: Tile) -> list[Value]:
        weights, bias = (F32.at(address) + where.place.channel for address in (r.weights, r.bias))
        sums = registers(constants(f32, bias, vectors) * tile)
        line, step = r.w * r.ldx * r.dilation_y, r.ldx * r.dilation_x

        def add_row(p: Any) -> None:
            """Add the taps of row p of the window."""
            taps: list[list[list[Value]]] = []
            for j, pixel in enumerate(spread(where.x + line * p, step, shape.span)):
                if j < size:
                    first = (p * size + j) * group
                    taps.append([constants(f32, weights + r.c * (first + i), vectors) for i in range(group)])
                with existing(where.columns, j):
                    values = [kind[pixel + i * f32.lanes].to(F32) for i in range(vectors)]
                    for i in range(group):
                        alike = [_of_group(value, group, i) for value in values]
                        add_column(sums, users[j], alike, [tap[i] for tap in taps])

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

    return shape, sums_of


def _of_group(x: Value, group: int, i: int) -> Value:
    """In each lane what channel i of the lane's group has."""
    return x if group == 1 else shuffle(x, [lane - lane % group + i for lane in range(x.lanes)])
