"""f32 depthwise convolution, channels last, for one kernel size and stride."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from .chain import Chain
from .isa.loops import loop, variable
from .isa.tiers import Tier
from .isa.vector import I64, Vector, emits
from .rows_window import DEPTHWISE, HEAD
from .window import CHANNELS, OUT_W, bit, constant, field, finisher, nest, spread

UNROLL_ROWS = 3
"""The most kernel rows that are unrolled."""


def make_depthwise(tier: Tier, kh: int, kw: int, sh: int, sw: int, tile: int, vectors: int = 1, chain: Chain = (),
                   extras: Sequence[str] = ()) -> Callable:
    """y[n, i, j, c] = chain(bias[c] + sum of x[n, i*sh + p - pad_top, j*sw + q - pad_left, c] * weights[p, q, c], extras).

    The sum runs over p, then q, from the bias on, each product fused into it where the tier can.
    """
    span = (tile - 1) * sw + kw
    lanes = tier.lanes
    finish = finisher(tier, tile, vectors, chain, extras, len(HEAD) + len(DEPTHWISE))

    def body(edge: bool) -> Any:
        @emits
        def outputs_of_row(b: Any, args: Any, x: Any, y: Any, image: Any, row: Any, column: Any, channel: Any,
                           rows: Any, columns: Any, outputs: Any) -> None:
            v = Vector(b, tier)
            ldx, w, c, ow = (field(b, args, i) for i in (HEAD.index("ldx"), HEAD.index("w"), CHANNELS, OUT_W))
            weights, bias = (v.at(v.pointer(field(b, args, len(HEAD) + i)), channel) for i in range(2))
            first = [constant(b, v.load(v.at(bias, i * lanes))) for i in range(vectors)]
            sums = [variable(b, value) for value in first * tile]

            def kernel_row(p: Any) -> None:
                pixels = spread(b, v.at(v.pointer(x), b.mul(b.mul(w, ldx), p)), ldx, span)
                taps = [v.at(weights, b.mul(c, b.add(b.mul(p, I64(kw)), I64(q)))) for q in range(kw)]
                taps = [[constant(b, v.load(v.at(tap, i * lanes))) for i in range(vectors)] for tap in taps]
                for j, pixel in enumerate(pixels):
                    with b.if_then(bit(b, columns, j)) if edge else nullcontext():
                        values = [v.load(v.at(pixel, i * lanes)) for i in range(vectors)]
                        for t in range(tile):
                            if 0 <= j - t * sw < kw:
                                for i, value in enumerate(values):
                                    total = sums[t * vectors + i]
                                    b.store(v.fma(value, taps[j - t * sw][i], b.load(total)), total)

            if kh <= UNROLL_ROWS:
                for p in range(kh):
                    with b.if_then(bit(b, rows, p)):
                        kernel_row(I64(p))
            else:
                with loop(b, 0, kh, 1) as index, b.if_then(bit(b, rows, index)):
                    kernel_row(index)
            pixel = b.add(b.mul(row, ow), column)
            finish(b, args, [b.load(total) for total in sums], y, image, pixel, channel, b.sub(c, channel),
                   outputs if edge else None)

        return outputs_of_row

    return nest(body(False), body(True), vectors * lanes, (kh, kw), (sh, sw), tile)
