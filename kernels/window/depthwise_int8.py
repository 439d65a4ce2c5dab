"""Depthwise convolution of bytes, channels last, for a square kernel of one size and stride.

The bytes of four input rows (two, as 16-bit numbers, where four can't be multiplied exactly at once) are interleaved,
so that one instruction sums a column of the kernel for a vector of channels; a group of rows serves all the output rows
and columns that need it. Padding is the zero point of x. Channels that don't fill the last vector are computed as part
of one that begins earlier: the same bytes are written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ..core.record import reader
from ..gemm.requantize import byte_rounder
from ..isa.integer import bytes_type
from ..isa.interleave import dot, interleave, load_pieces, store_pieces, store_some
from ..isa.lanes import PARTS
from ..isa.loops import divide, larger, lesser, loop, smaller, thread_range
from ..isa.tiers import Tier
from ..isa.vector import I8, I64, Vector, emits
from .pick_depthwise_int8 import TILES, Scheme, scheme_of
from .rows import DEPTHWISE_INT8
from .window import slots, spread

Load = Callable[[int, int], Any]
"""(index into a scheme's lines, input column) -> its vector of bytes."""


def emit_tile(
    v: Vector, r: Any, scheme: Scheme, tile: int, load: Load, packed: Any, put: Callable[[int, int, Any], None]
) -> None:
    """Emit the sums of `tile` outputs in each row of the scheme; put(row, output, bytes) stores a vector of them, in
    turn from the last row to the first. r: slots with those of rows.STORED.
    """
    b, size, stride, rounded = v.b, 4 * v.lanes, scheme.stride, byte_rounder(v, r)
    span = (tile - 1) * stride + scheme.size
    # Outputs that share each load of weights, as far as their sums and columns find registers. Where columns are many,
    # they are interleaved again for the next outputs: that costs less than keeping them.
    crowded = stride == 1 and (scheme.size + 1) * len(scheme.sources) * PARTS > v.tier.registers
    together = (3 if crowded else 2) if v.tier.registers == 32 else 1
    columns: dict[tuple[int, int], list[Any]] = {}

    def constants(index: int, part: int, kind: Any) -> Any:
        at = b.add(packed, I64((index * PARTS + part) * size))
        return b.load(b.inttoptr(at, kind.as_pointer()), align=1)

    def column(j: int, s: int) -> list[Any]:
        if (j, s) not in columns:
            source = scheme.sources[s]
            places = [(line, j) for line in source]
            if len(source) == 1:
                places = [(source[0], j + k) for k in range(scheme.group) if j + k < span]
            rows = [load(*place) for place in places]
            rows += [ir.Constant(bytes_type(v), [0] * size)] * (scheme.group - len(rows))
            columns[j, s] = interleave(v, rows)
        return columns[j, s]

    for first in range(0, tile, together):
        outputs = range(first, min(first + together, tile))
        if crowded:
            columns.clear()
        bias = [constants(0, part, v.itype) for part in range(PARTS)]
        sums = {(i, t): list(bias) for i in reversed(range(scheme.rows)) for t in outputs}
        for index, (i, s, q) in enumerate(scheme.terms):
            for part in range(PARTS):
                w = constants(2 + index, part, v.itype)
                for t in outputs:
                    x = column(t * stride + q, s)[part]
                    sums[i, t][part] = dot(v, sums[i, t][part], x, w, scheme.group == 2)
        factors = [constants(1, part, v.type) for part in range(PARTS)]
        for (i, t), totals in sums.items():
            put(i, t, rounded([b.fmul(b.sitofp(s, v.type), f) for s, f in zip(totals, factors, strict=True)]))


def make_depthwise(tier: Tier, size: int, stride: int, wide: bool, pieces: int) -> Callable:
    """Vectors of `4 * lanes` channels of a pixel. With several `pieces`, a vector has all channels of as many pixels,
    which lie as many parts of a row apart. wide: weights of 16 bits.
    """
    scheme = scheme_of(tier, size, stride, wide)
    width, constants = 4 * tier.lanes, (2 + len(scheme.terms)) * PARTS * 4 * tier.lanes
    fields, rows = reader(DEPTHWISE_INT8), scheme.rows

    @emits
    def row_of_outputs(b: Any, args: Any, image: Any, row: Any, block: Any) -> None:
        v = Vector(b, tier)
        r = slots(b, args, DEPTHWISE_INT8)
        packed = b.add(r.packed, b.mul(block, I64(constants)))
        channel, each = b.mul(block, I64(width)), b.udiv(b.add(r.ow, I64(pieces - 1)), I64(pieces))
        channel = lesser(b, channel, b.select(b.icmp_signed(">", r.c, I64(width)), b.sub(r.c, I64(width)), I64(0)))
        starts = [lesser(b, b.mul(each, I64(k)), b.sub(r.ow, each)) for k in range(pieces)]
        lines, exist = _lines(b, r, scheme, image, b.sub(b.mul(row, I64(stride)), r.pad_top), channel)
        targets = _targets(b, r, rows, image, row, channel)

        def outputs(at: Any, tile: int) -> None:
            """A tile of each piece, from its output `at` on."""
            firsts = [b.add(start, at) for start in starts]
            lefts = [b.sub(b.mul(first, I64(stride)), r.pad_left) for first in firsts]
            load = _loader(v, r, scheme, tile, lines, exist, lefts)
            to = [[b.add(target, b.mul(first, r.ldy)) for first in firsts] for target in targets]
            places = [[spread(b, v.pointer(first, I8), r.ldy, tile, 1) for first in line] for line in to]

            def put(i: int, t: int, value: Any) -> None:
                if pieces == 1:
                    store_some(v, value, places[i][0][t], r.c)
                else:
                    store_pieces(v, value, [piece[t] for piece in places[i]])

            emit_tile(v, r, scheme, tile, load, packed, put)

        done = I64(0)
        for tile in TILES[size]:
            end = b.sub(each, b.urem(b.sub(each, done), I64(tile)))
            with loop(b, done, end, tile) as t:
                outputs(t, tile)
            done = end

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        blocks = divide(r.c + (width - 1), width)
        bands = divide(r.oh + r.band - 1, r.band)
        units = r.n * bands * blocks
        if r.ow == 0:
            return
        start, stop = thread_range(units, thread, threads)
        for unit in range(start, stop):
            above = divide(unit, blocks)
            image = divide(above, bands)
            top = (above - image * bands) * r.band
            for row in range(top, smaller(top + r.band, r.oh), rows):
                row_of_outputs(args, image, larger(smaller(row, r.oh - rows), 0), unit - above * blocks)

    return run


def _loader(
    v: Vector, r: Any, scheme: Scheme, tile: int, lines: Sequence[Any], exist: Sequence[Any], lefts: Sequence[Any]
) -> Load:
    """Loads the columns of a tile whose pieces begin at the input columns `lefts`. What isn't there is read at r.fill,
    where all bytes are zero points of x.

    Only columns at either end can be outside of x: padding is less than the kernel.
    """
    b = v.b
    span, reach = (tile - 1) * scheme.stride + scheme.size, scheme.size - 1
    outer = [j for j in range(span) if j < reach or j >= span - reach]
    inside = [{j: b.icmp_unsigned("<", b.add(left, I64(j)), r.w) for j in outer} for left in lefts]
    pixels = []
    for left in lefts:
        skip = b.mul(left, r.ldx)
        starts = [b.select(there, b.add(line, skip), r.fill) for line, there in zip(lines, exist, strict=True)]
        pixels.append([spread(b, v.pointer(start, I8), r.ldx, span, 1) for start in starts])
    blank = v.pointer(r.fill, I8)

    def load(line: int, j: int) -> Any:
        places = [
            b.select(there[j], of[line][j], blank) if j in there else of[line][j]
            for of, there in zip(pixels, inside, strict=True)
        ]
        return load_pieces(v, places)

    return load


def _lines(b: Any, r: Any, scheme: Scheme, image: Any, up: Any, channel: Any) -> tuple[list[Any], list[Any]]:
    """(where the lines of a scheme begin that reads from row `up` of x on, whether they are in x)."""
    rows = [b.add(up, I64(line)) for line in scheme.lines]
    at = [b.add(r.x, b.add(b.mul(b.mul(b.add(b.mul(image, r.h), row), r.w), r.ldx), channel)) for row in rows]
    return at, [b.icmp_unsigned("<", row, r.h) for row in rows]


def _targets(b: Any, r: Any, rows: int, image: Any, row: Any, channel: Any) -> list[Any]:
    """Where rows of y begin, from `row` on. What is no row of y goes to the first, which is written after it."""

    def target(at: Any) -> Any:
        return b.add(r.y, b.add(b.mul(b.mul(b.add(b.mul(image, r.oh), at), r.ow), r.ldy), channel))

    first = target(row)
    others = [b.add(row, I64(i)) for i in range(1, rows)]
    return [first, *(b.select(b.icmp_signed("<", at, r.oh), target(at), first) for at in others)]
