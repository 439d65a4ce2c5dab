"""f32 convolution of each channel or of few together, channels last, compiled for a width of the window and an output
stride counted in taps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.elements import ELEMENTS
from ..isa.tiers import Tier
from ..lang import BF16, F32, I32, I64, Type, Value, over, registers, shuffle, tier
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
    shape = Shape(size, stride, tile, vectors)
    return nest(DEPTHWISE, tiles(DEPTHWISE, kind, *_sums(f32, kind, shape, 1)), copied=kind)


def make_grouped(tier: Tier, size: int, stride: int, tile: int, group: int, element: str) -> Callable:
    """As make_depthwise, where each of `group` neighboring output channels reads all of these channels of x, by
    weights[p, q, i, c] of the group's channel i; the sum runs over i within q. element: of x, f32, or bf16, of which
    two channels are multiplied at once, by weights in words of two; y is f32, or alike.
    """
    f32 = F32.vector(tier.lanes)
    kind = ELEMENTS[element].like(f32)
    return nest(GROUPED, tiles(GROUPED, kind, *_sums(f32, kind, Shape(size, stride, tile), group)))


def _sums(f32: Type, kind: Type, shape: Shape, group: int) -> tuple[Shape, Callable[[Any, Tile], list[Value]]]:
    """The shape of tiles of `kind` in memory, and what sums them."""
    size, stride, tile, vectors = shape
    paired = group > 1 and kind is not f32
    word = I32.like(f32) if paired else f32
    parts = group // 2 if paired else group
    users = [[(t, q) for q in range(size) for t in range(tile) if t * stride + q == j] for j in range(shape.span)]

    def sums_of(r: Any, where: Tile) -> list[Value]:
        maps, channel = where.place.maps, where.place.channel
        (first, ldw), bias = (maps.weights, maps.ldw) if maps else (r.weights, r.c), F32.at(r.bias) + channel
        weights = word.number.at(first) + channel
        sums = registers(constants(f32, bias, vectors) * tile)
        line, step = (where.ldx(r) * distance for distance in (r.w * r.dilation_y, r.dilation_x))

        def add_row(p: Any) -> None:
            """Add the taps of row p of the window."""
            taps: list[list[list[Value]]] = []
            for j, pixel in enumerate(spread(where.x + line * p, step, shape.span)):
                if j < size:
                    nth = (p * size + j) * parts
                    taps.append([constants(word, weights + ldw * (nth + i), vectors) for i in range(parts)])
                with existing(where.columns, j):
                    found = [kind[pixel + i * f32.lanes] for i in range(vectors)]
                    values = [x.bits(I32) if paired else x.to(F32) for x in found]
                    for i in range(parts):
                        alike = [_of_group(value, f32.lanes // group, i) for value in values]
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


def _of_group(x: Value, groups: int, i: int) -> Value:
    """In each lane of f32 element i of those that the lane's group has, of so many groups of a vector."""
    lanes, own = tier().lanes, x.lanes // groups
    return x if groups == lanes else shuffle(x, [lane * groups // lanes * own + i for lane in range(lanes)])
