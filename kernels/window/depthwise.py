"""f32 depthwise convolution, channels last, for one kernel size, stride and dilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..isa.loops import loop, variable
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector
from ..pointwise.chain import Chain
from .rows import DEPTHWISE
from .window import Place, constant, existing, finisher, nest, slots, spread

UNROLL_ROWS = 3
"""The most kernel rows that are unrolled."""


def make_depthwise(
    tier: Tier,
    kh: int,
    kw: int,
    sh: int,
    sw: int,
    tile: int,
    dh: int = 1,
    dw: int = 1,
    vectors: int = 1,
    together: int = 1,
    chain: Chain = (),
    extras: Sequence[str] = (),
) -> Callable:
    """y[n, i, j, c] = chain(sum, extras...) where the sum is that of bias[c] and all
    x[n, i*sh + p*dh - pad_top, j*sw + q*dw - pad_left, c] * weights[p, q, c] inside of the image.

    The sum runs over p, then q, from the bias on, each product fused into it where the tier can.
    """
    span = (tile - 1) * sw + (kw - 1) * dw + 1
    users = [[(t, q) for q in range(kw) for t in range(tile) if t * sw + q * dw == j] for j in range(span)]
    lanes = tier.lanes
    finish = finisher(tier, tile, vectors, chain, extras, DEPTHWISE)

    def emit_tile(b: Any, place: Place) -> None:
        v = Vector(b, tier)
        r = slots(b, place.args, DEPTHWISE)
        weights, bias = (v.at(v.pointer(address), place.channel) for address in (r.weights, r.bias))
        first = [constant(b, v.load(v.at(bias, i * lanes))) for i in range(vectors)]
        sums = [variable(b, value) for value in first * tile]

        def kernel_row(p: Any) -> None:
            pixels = spread(b, v.at(v.pointer(place.x), b.mul(b.mul(r.w, r.ldx), b.mul(p, I64(dh)))), r.ldx, span)
            taps: list[list[Any]] = []
            for j, pixel in enumerate(pixels):
                if not users[j]:
                    continue
                if j == len(taps) * dw and len(taps) < kw:
                    tap = v.at(weights, b.mul(r.c, b.add(b.mul(p, I64(kw)), I64(len(taps)))))
                    taps.append([constant(b, v.load(v.at(tap, i * lanes))) for i in range(vectors)])
                with existing(b, place.columns, j):
                    values = [v.load(v.at(pixel, i * lanes)) for i in range(vectors)]
                    for t, q in users[j]:
                        for i, value in enumerate(values):
                            total = sums[t * vectors + i]
                            b.store(v.fma(value, taps[q][i], b.load(total)), total)

        if kh <= UNROLL_ROWS:
            for p in range(kh):
                with existing(b, place.rows, p):
                    kernel_row(I64(p))
        else:
            with loop(b, 0, kh, 1) as index, existing(b, place.rows, index):
                kernel_row(index)
        pixel = b.add(b.mul(place.row, r.ow), place.column)
        finish(b, place, [b.load(total) for total in sums], pixel, b.sub(r.c, place.channel))

    return nest(emit_tile, vectors * lanes, (kh, kw), (sh, sw), tile, together, (dh, dw))
