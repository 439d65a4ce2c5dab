"""f32 depthwise convolution, channels last, for one width of window and one distance of outputs in taps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..isa.loops import loop, variable
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector
from .pick import ROWS
from .rows import DEPTHWISE
from .tiles import Tile, tiles
from .window import constants, existing, settle, spread


def make_depthwise(tier: Tier, size: int, stride: int, tile: int, vectors: int) -> Callable:
    """y[n, i, j, c] is what the epilogue makes of the sum of bias[c] and all
    x[n, i*sh + p*dh - pad_top, j*sw + q*dw - pad_left, c] * weights[p, q, c] inside of the image; p < kh, q < size,
    where sw is a divisor of stride * dw.

    The sum runs over p, then q, from the bias on, each product fused into it where the tier can.
    """
    span = (tile - 1) * stride + size
    users = [[(t, q) for q in range(size) for t in range(tile) if t * stride + q == j] for j in range(span)]

    def emit_sums(v: Vector, r: Any, where: Tile) -> list[Any]:
        b, channel = v.b, where.place.channel
        weights, bias = (v.at(v.pointer(address), channel) for address in (r.weights, r.bias))
        sums = [variable(b, value) for value in constants(v, bias, vectors) * tile]
        line, step = b.mul(b.mul(r.w, r.ldx), r.dh), b.mul(r.ldx, r.dw)

        def emit_taps(p: Any) -> None:
            """Add the taps of row p of the window."""
            taps: list[list[Any]] = []
            for j, pixel in enumerate(spread(b, v.at(where.x, b.mul(line, p)), step, span)):
                if j < size:
                    tap = b.mul(r.c, b.add(b.mul(p, I64(size)), I64(j)))
                    taps.append(constants(v, v.at(weights, tap), vectors))
                with existing(b, where.columns, j):
                    values = [v.load(v.at(pixel, i * v.lanes)) for i in range(vectors)]
                    for t, q in users[j]:
                        for i, value in enumerate(values):
                            total = sums[t * vectors + i]
                            b.store(v.fma(value, taps[q][i], b.load(total)), total)
                    if vectors > 1:
                        settle(v, [sums[t * vectors + i] for t, _ in users[j] for i in range(vectors)])

        if size == ROWS:
            bits = b.sub(*(b.shl(I64(1), end) for end in reversed(where.rows)))
            for p in range(ROWS):
                with existing(b, bits, p):
                    emit_taps(I64(p))
        else:
            with loop(b, *where.rows, 1) as p:
                emit_taps(p)
        return [b.load(total) for total in sums]

    return tiles(tier, DEPTHWISE, size, stride, tile, vectors, emit_sums)
