"""f32 depthwise convolution, channels last, for one kernel size and stride.

A tile is `tile` neighboring outputs of a row by `vectors` vectors of channels, held in registers. One whose input
columns all exist runs without checks; in the others a bit for each column says what to skip, so that padding costs
neither arithmetic nor a copy. Rows outside the image are skipped likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..isa.loops import lesser, loop, variable
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector
from .results import Outputs, finish
from .rows import DEPTHWISE
from .window import Place, constant, existing, low_bits, nest, slots, spread

UNROLL_ROWS = 3
"""The most kernel rows that are unrolled."""


def make_depthwise(tier: Tier, size: int, stride: int, tile: int, vectors: int) -> Callable:
    """y[n, i, j, c] is what the epilogue makes of the sum of bias[c] and all
    x[n, i*stride + p - pad_top, j*stride + q - pad_left, c] * weights[p, q, c] inside of the image; p, q < size.

    The sum runs over p, then q, from the bias on, each product fused into it where the tier can.
    """
    lanes = tier.lanes
    span = (tile - 1) * stride + size
    users = [[(t, q) for q in range(size) for t in range(tile) if t * stride + q == j] for j in range(span)]

    def emit_row(b: Any, place: Place) -> None:
        v = Vector(b, tier)
        r = slots(b, place.args, DEPTHWISE)
        up = b.sub(b.mul(place.row, I64(stride)), r.pad_top)
        rows = b.sub(*(low_bits(b, b.sub(end, up), I64(size)) for end in (r.h, I64(0))))
        line = b.mul(r.w, r.ldx)
        source = b.mul(b.sub(b.mul(b.add(b.mul(place.image, r.h), up), r.w), r.pad_left), r.ldx)
        first = b.mul(b.add(b.mul(place.image, r.oh), place.row), r.ow)

        def tap_sums(x: Any, channel: Any, sums: Any, columns: Any) -> None:
            """Add a tile's taps; input column j exists when bit j of `columns` is set, all do where it is None."""
            weights = v.at(v.pointer(r.weights), channel)

            def kernel_row(p: Any) -> None:
                pixels = spread(b, v.at(x, b.mul(line, p)), r.ldx, span)
                taps: list[list[Any]] = []
                for j, pixel in enumerate(pixels):
                    if j < size:
                        tap = v.at(weights, b.mul(r.c, b.add(b.mul(p, I64(size)), I64(j))))
                        taps.append([constant(b, v.load(v.at(tap, i * lanes))) for i in range(vectors)])
                    with existing(b, columns, j):
                        values = [v.load(v.at(pixel, i * lanes)) for i in range(vectors)]
                        for t, q in users[j]:
                            for i, value in enumerate(values):
                                total = sums[t * vectors + i]
                                b.store(v.fma(value, taps[q][i], b.load(total)), total)

            if size <= UNROLL_ROWS:
                for p in range(size):
                    with existing(b, rows, p):
                        kernel_row(I64(p))
            else:
                with loop(b, 0, size, 1) as index, existing(b, rows, index):
                    kernel_row(index)

        with loop(b, 0, r.ow, tile) as column:
            left = b.sub(b.mul(column, I64(stride)), r.pad_left)
            room, count = b.sub(r.w, left), lesser(b, b.sub(r.ow, column), I64(tile))
            inside = b.and_(b.icmp_signed(">=", left, I64(0)), b.icmp_signed(">=", room, I64(span)))
            inside = b.and_(inside, b.icmp_signed("==", count, I64(tile)))
            used = low_bits(b, b.add(b.mul(count, I64(stride)), I64(size - stride)), I64(span))
            missing = b.or_(low_bits(b, b.neg(left), I64(span)), b.not_(low_bits(b, room, I64(span))))
            columns = b.and_(used, b.not_(missing))
            begin = v.at(v.pointer(r.x), b.add(source, b.mul(b.mul(column, I64(stride)), r.ldx)))
            pixel = b.add(first, column)
            with loop(b, place.channel, place.end, vectors * lanes) as channel:
                bias = v.at(v.pointer(r.bias), channel)
                values = [constant(b, v.load(v.at(bias, i * lanes))) for i in range(vectors)]
                sums = [variable(b, value) for value in values * tile]
                x = v.at(begin, channel)
                y = b.add(r.y, b.shl(b.add(b.mul(pixel, r.ldy), channel), I64(2)))
                in_image = b.add(b.mul(place.row, r.ow), column)
                where = replace(place, channel=channel)

                def both(columns: Any, count: Any) -> None:
                    tap_sums(x, channel, sums, columns)
                    out = Outputs(y, in_image, count)
                    finish(v, DEPTHWISE, where, out, [b.load(s) for s in sums], vectors)

                with b.if_else(inside) as (inner, edge):
                    with inner:
                        both(None, None)
                    with edge:
                        both(columns, count)

    return nest(DEPTHWISE, emit_row)
