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
from .window import Place, constant, existing, fence, low_bits, nest, opaque, slots, spread

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
        source = b.mul(b.sub(b.mul(b.add(b.mul(place.image, r.h), up), r.w), r.pad_left), r.ldx)
        with loop(b, 0, r.ow, tile) as column:
            left = b.sub(b.mul(column, I64(stride)), r.pad_left)
            room, rest = b.sub(r.w, left), b.sub(r.ow, column)
            inside = b.and_(b.icmp_signed(">=", left, I64(0)), b.icmp_signed(">=", room, I64(span)))
            inside = b.and_(inside, b.icmp_signed(">=", rest, I64(tile)))
            begin = b.add(source, b.mul(b.mul(column, I64(stride)), r.ldx))
            with loop(b, place.channel, place.end, vectors * lanes) as channel:
                emit_tile(b, replace(place, channel=channel), column, begin, inside, rows)

    def emit_tile(b: Any, place: Place, column: Any, begin: Any, inside: Any, rows: Any) -> None:
        """One tile, whose first column is `column`; `begin`: f32 from x to where its first window begins."""
        v = Vector(b, tier)
        r = slots(b, place.args, DEPTHWISE)
        bias = v.at(v.pointer(r.bias), place.channel)
        first = [constant(b, v.load(v.at(bias, i * lanes))) for i in range(vectors)]
        sums = [variable(b, value) for value in first * tile]
        x = v.at(v.at(v.pointer(r.x), begin), place.channel)
        pixel = b.add(b.mul(place.row, r.ow), column)
        in_batch = b.add(b.mul(b.mul(place.image, r.oh), r.ow), pixel)
        y = b.add(r.y, b.shl(b.add(b.mul(in_batch, r.ldy), place.channel), I64(2)))

        def taps_and_rest(columns: Any, count: Any) -> None:
            _taps(v, r, place, x, sums, rows, columns)
            finish(v, DEPTHWISE, place, Outputs(y, pixel, count), [b.load(total) for total in sums], vectors)

        with b.if_else(inside) as (inner, edge):
            with inner:
                taps_and_rest(None, None)
            with edge:
                left = b.sub(b.mul(column, I64(stride)), r.pad_left)
                count = lesser(b, b.sub(r.ow, column), I64(tile))
                used = low_bits(b, b.add(b.mul(count, I64(stride)), I64(size - stride)), I64(span))
                missing = b.or_(low_bits(b, b.neg(left), I64(span)), b.not_(low_bits(b, b.sub(r.w, left), I64(span))))
                taps_and_rest(b.and_(used, b.not_(missing)), count)

    def _taps(v: Vector, r: Any, place: Place, x: Any, sums: list[Any], rows: Any, columns: Any) -> None:
        """Add a tile's taps. Kernel row p exists when bit p of `rows` is set. Input column j exists when bit j of
        `columns` is, all do where it is None.
        """
        b = v.b
        weights, line = v.at(v.pointer(r.weights), place.channel), b.mul(r.w, r.ldx)

        def kernel_row(p: Any) -> None:
            taps: list[list[Any]] = []
            for j, pixel in enumerate(spread(b, v.at(x, b.mul(line, p)), r.ldx, span)):
                if vectors > 1:
                    fence(b)
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

    return nest(DEPTHWISE, emit_row)
