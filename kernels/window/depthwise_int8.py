"""Depthwise convolution of bytes, channels last, for a square kernel of one size and stride.

The bytes of four input rows (two, as 16-bit numbers, where four can't be multiplied exactly at once) are interleaved,
so that one instruction sums a column of the kernel for a vector of channels; a group of rows serves all the output rows
and columns that need it. Padding is the zero point of x. Channels that don't fill the last vector are computed as part
of one that begins earlier: the same bytes are written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..gemm.requantize import byte_rounder
from ..isa.interleave import dot, interleave, load_pieces, store_pieces
from ..isa.lanes import PARTS
from ..isa.stores import store_some
from ..isa.tiers import Tier
from ..lang import F32, I32, U8, Type, Value, below, choose, divide, over, remainder, smaller, tier
from .pick_depthwise_int8 import TILES, Scheme, scheme_of
from .rows import DEPTHWISE_INT8
from .window import Place, nest, slots, spread, within

Load = Callable[[int, int], Value]
"""(index into a scheme's lines, input column) -> its vector of bytes."""
Line = tuple[Value, Value]
"""(address of a row of x, whether the row exists)."""


def sum_tile(
    r: Any, scheme: Scheme, tile: int, load: Load, packed: Value, put: Callable[[int, int, Value], None]
) -> None:
    """The sums of `tile` outputs in each row of the scheme; put(row, output, bytes) stores a vector of them, in turn
    from the last row to the first. r: slots with those of rows.STORED.
    """
    f32, rounded = F32.vector(tier().lanes), byte_rounder(r)
    i32, blank = I32.like(f32), U8.vector(f32.size)(0)
    stride, span = scheme.stride, (tile - 1) * scheme.stride + scheme.size
    # Outputs that share each load of weights, as far as their sums and columns find registers. Where columns are many,
    # they are interleaved again for the next outputs: that costs less than keeping them.
    crowded = stride == 1 and (scheme.size + 1) * len(scheme.sources) * PARTS > tier().registers
    together = (3 if crowded else 2) if tier().registers >= 32 else 1
    columns: dict[tuple[int, int], list[Value]] = {}

    def column(j: int, s: int) -> list[Value]:
        if (j, s) not in columns:
            source = scheme.sources[s]
            places = [(line, j) for line in source]
            if len(source) == 1:
                places = [(source[0], j + k) for k in range(scheme.group) if j + k < span]
            rows = [load(*place) for place in places]
            columns[j, s] = interleave(rows + [blank] * (scheme.group - len(rows)))
        return columns[j, s]

    for first in range(0, tile, together):
        outputs = range(first, min(first + together, tile))
        if crowded:
            columns.clear()
        bias = constants(i32, packed, 0)
        sums = {(i, t): list(bias) for i in reversed(range(scheme.rows)) for t in outputs}
        for index, (i, s, q) in enumerate(scheme.terms):
            for part in range(PARTS):
                w = constant(i32, packed, 2 + index, part)
                for t in outputs:
                    x = column(t * stride + q, s)[part]
                    sums[i, t][part] = dot(sums[i, t][part], x, w, scheme.group == 2)
        factors = constants(f32, packed, 1)
        for (i, t), totals in sums.items():
            put(i, t, rounded(scaled(totals, factors)))


def constant(kind: Type, packed: Value, index: Any, part: int) -> Value:
    """Vector `part` of entry `index` of a block's packed constants: entry 0 is the bias, 1 the multipliers, 2 and on
    the weights."""
    return kind[packed + (index * PARTS + part) * kind.size]


def constants(kind: Type, packed: Value, index: Any) -> list[Value]:
    """All PARTS of entry `index`."""
    return [constant(kind, packed, index, part) for part in range(PARTS)]


def scaled(totals: Sequence[Value], factors: Sequence[Value]) -> list[Value]:
    """Sums as f32, times the multipliers."""
    return [total.to(F32) * factor for total, factor in zip(totals, factors, strict=True)]


def make_depthwise(tier: Tier, size: int, stride: int, wide: bool, pieces: int) -> Callable:
    """Vectors of `4 * lanes` channels of a pixel. With several `pieces`, a vector has all channels of as many pixels,
    which lie as many parts of a row apart. wide: weights of 16 bits.
    """
    scheme = scheme_of(tier, size, stride, wide)
    width, constants = 4 * tier.lanes, (2 + len(scheme.terms)) * PARTS

    def rows_of_outputs(place: Place) -> None:
        r, image, row = slots(place.args, DEPTHWISE_INT8), place.image, place.row
        packed = r.packed + place.channel * constants
        channel, each = within(place.channel, r.c, width), divide(r.out_w + (pieces - 1), pieces)
        starts = [smaller(each * k, r.out_w - each) for k in range(pieces)]
        up = row * stride - r.pad_y
        lines = lines_at(r, image, [up + line for line in scheme.lines], channel)
        targets = _targets(r, scheme.rows, image, row, channel)

        def outputs(at: Value, tile: int) -> None:
            """Compute a tile of each piece, from its output `at` on."""
            firsts = [start + at for start in starts]
            load = _loader(r, scheme, tile, lines, [first * stride - r.pad_x for first in firsts])
            to = [[target + first * r.ldy for first in firsts] for target in targets]
            places = [[spread(U8.at(first), r.ldy, tile) for first in line] for line in to]

            def put(i: int, t: int, value: Value) -> None:
                if pieces == 1:
                    store_some(value, places[i][0][t], r.c)
                else:
                    store_pieces(value, [piece[t] for piece in places[i]])

            sum_tile(r, scheme, tile, load, packed, put)

        done: Any = 0
        for tile in TILES[size]:
            end = each - remainder(each - done, tile)
            for t in over(done, end, tile):
                outputs(t, tile)
            done = end

    return nest(DEPTHWISE_INT8, rows_of_outputs, scheme.rows)


def _loader(r: Any, scheme: Scheme, tile: int, lines: Sequence[Line], lefts: Sequence[Value]) -> Load:
    """A function that loads the columns of a tile whose pieces begin at the input columns `lefts`. Padding is read at
    r.fill, where all bytes are zero points of x.

    Only columns at either end can be outside of x: padding is less than the kernel.
    """
    span, reach = (tile - 1) * scheme.stride + scheme.size, scheme.size - 1
    outer = [j for j in range(span) if j < reach or j >= span - reach]
    inside = [{j: below(left + j, r.w) for j in outer} for left in lefts]
    pixels = []
    for left in lefts:
        skip = left * r.ldx
        starts = [choose(there, line + skip, r.fill) for line, there in lines]
        pixels.append([spread(U8.at(start), r.ldx, span) for start in starts])
    blank = U8.at(r.fill)

    def load(line: int, j: int) -> Value:
        places = [
            choose(there[j], of[line][j], blank) if j in there else of[line][j]
            for of, there in zip(pixels, inside, strict=True)
        ]
        return load_pieces(places)  # type: ignore[no-any-return]

    return load


def lines_at(r: Any, image: Value, rows: Sequence[Value], channel: Value) -> list[Line]:
    """The lines of these rows of x from a channel on."""
    return [(r.x + ((image * r.h + row) * r.w * r.ldx + channel), below(row, r.h)) for row in rows]


def _targets(r: Any, rows: int, image: Value, row: Value, channel: Value) -> list[Value]:
    """Addresses of rows of y, from `row` on. Rows beyond y get the address of the first, which is written last."""

    def target(at: Value) -> Value:
        return r.y + ((image * r.out_h + at) * r.out_w * r.ldy + channel)  # type: ignore[no-any-return]

    first = target(row)
    others = [row + i for i in range(1, rows)]
    return [first, *(choose(at < r.out_h, target(at), first) for at in others)]
