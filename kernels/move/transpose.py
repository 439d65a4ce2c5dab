"""Batched 2-D transposes in registers, the core of every permutation that moves the innermost axis.

A source of `cols` rows with `rows` contiguous elements each becomes `rows` rows with `cols` contiguous
elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import Value, cases, choose, div_rem, larger, outlined, over, pieces, share, smaller, traced, when, whole
from ..lang.types import I64, Type, integer
from .outer_loops import outer_address, outer_count
from .rows import NARROW, TRANSPOSE
from .shuffles import has_halves, mix, tile_lanes, transpose_half, transpose_square


def transpose(tier: Tier, itemsize: int, narrow: int) -> Callable:
    """The kernel that transposes a batch of matrices of `itemsize`-byte elements.

    `narrow` = 0 takes any shape, in square tiles. The others have at least `tile_lanes` places on one side, and k of 2
    to NARROW on the other: 1 interleaves k = cols lines into dense rows, and the record's `few` is k; -1 deals dense
    rows out to k = rows lines, and `few` is -k.
    """
    if narrow:
        return _narrow(tier, itemsize, narrow < 0)
    lanes = tile_lanes(tier, itemsize)
    half = lanes // 2 if has_halves(lanes, itemsize) else 0
    tile, edge = _tile(itemsize, lanes, lanes), _edge(itemsize, lanes)
    low, slim = (_tile(itemsize, half, lanes), _tile(itemsize, lanes, half)) if half else (tile, tile)
    tiles = _tiles(tile, itemsize, lanes)

    def kernel(args, thread, threads):
        r = fields(args, TRANSPOSE)
        wide = larger(r.wide, lanes)
        down, across = pieces(r.rows, r.high), pieces(r.cols, wide)
        begin, end = share(outer_count(args, TRANSPOSE) * down * across, thread, threads)
        tall, broad = r.rows >= lanes, r.cols >= lanes
        while begin < end:
            line, right = div_rem(begin, across)
            o, below = div_rem(line, down)
            row, col = below * r.high, right * wide
            begin += 1
            to, at = outer_address(args, TRANSPOSE, o, r.dst, r.src)
            stop = smaller(r.cols, col + wide)
            for i in range(row, smaller(r.rows, row + r.high), lanes):
                short, first = half <= r.rows <= i + half, col
                if tall and broad and not short:
                    y = smaller(i, r.rows - lanes)
                    first += tiles(to + y * r.row_d, at + y * itemsize, r.row_d, r.col_s, col, stop)
                for j in range(first, stop, lanes):
                    y, x = smaller(i, r.rows - lanes), smaller(j, r.cols - lanes)
                    if tall and half <= r.cols <= j + half:
                        x = r.cols - half
                        slim(to + y * r.row_d + x * itemsize, at + x * r.col_s + y * itemsize, r.row_d, r.col_s)
                    elif broad and short:
                        y = r.rows - half
                        low(to + y * r.row_d + x * itemsize, at + x * r.col_s + y * itemsize, r.row_d, r.col_s)
                    elif tall and broad:
                        tile(to + y * r.row_d + x * itemsize, at + x * r.col_s + y * itemsize, r.row_d, r.col_s)
                    else:
                        dst, src = to + i * r.row_d + j * itemsize, at + j * r.col_s + i * itemsize
                        edge(dst, src, r.row_d, r.col_s, r.rows - i, r.cols - j)

    return kernel


def _narrow(tier: Tier, itemsize: int, split: bool) -> Callable:
    strips = _strips(itemsize, tile_lanes(tier, itemsize), split)

    def kernel(args, thread, threads):
        r = fields(args, TRANSPOSE)
        n = r.cols if split else r.rows
        count = pieces(n, r.high)
        begin, end = share(outer_count(args, TRANSPOSE) * count, thread, threads)
        while begin < end:
            o, piece = div_rem(begin, count)
            first = piece * r.high
            begin += 1
            to, at = outer_address(args, TRANSPOSE, o, r.dst, r.src)
            strips(args, to, at, first, smaller(n, first + r.high))

    return kernel


def _vector(itemsize: int, lanes: int) -> Type:
    return integer(8 * itemsize, signed=False).vector(lanes)


def _tile(itemsize: int, rows: int, cols: int) -> Callable:
    """`tile(dst, src, row_d, col_s)`: a whole square, or half of one."""
    # A square of 32 bytes a side is two halves: loads put parts of 128 bits together without a shuffle.
    parts = 2 if rows == cols == 32 // itemsize else 1
    column = _vector(itemsize, rows // parts)
    transposed = transpose_square if column.lanes == cols else transpose_half

    @traced
    def tile(dst: Value, src: Value, row_d: Value, col_s: Value) -> None:
        for start in range(0, rows, column.lanes):
            columns = [column[src + (col_s * i + start * itemsize)] for i in range(cols)]
            for i, row in enumerate(transposed(columns, itemsize), start):
                row.type[dst + row_d * i] = row

    return tile


def _tiles(tile: Callable, itemsize: int, lanes: int) -> Callable:
    """`tiles(dst, src, row_d, col_s, first, end)`: whole squares side by side, of the columns of dst from `first` on;
    how many columns these are.
    """

    @traced
    def tiles(dst: Value, src: Value, row_d: Value, col_s: Value, first: Value, end: Value) -> Value:
        count = whole(end - first, lanes)
        to, place = dst + first * itemsize, src + first * col_s
        for j in over(0, count, lanes):
            tile(to + j * itemsize, place + j * col_s, row_d, col_s)
        return count

    return tiles


def _edge(itemsize: int, lanes: int) -> Callable:
    """`edge(dst, src, row_d, col_s, rows, cols)`: a partial square, at least 1 x 1.

    Loads whole vectors, so up to a vector beyond the end of a source row.
    """
    vector = _vector(itemsize, lanes)

    @traced
    def edge(dst: Value, src: Value, row_d: Value, col_s: Value, rows: Value, cols: Value) -> None:
        last = cols - 1
        columns = [vector[src + col_s * choose(I64(i) < cols, i, last)] for i in range(lanes)]
        mask = vector.below(smaller(cols, lanes))
        for i, row in enumerate(transpose_square(columns, itemsize)):
            with when(I64(i) < rows):
                vector[dst + row_d * i, mask] = row

    return edge


def _strips(itemsize: int, lanes: int, split: bool) -> Callable:
    """`strips(args, dst, src, first, end)`: elements first..end of the k lines; k is the record's `few`."""
    vector = _vector(itemsize, lanes)

    def lines(k: int, args: Value, dst: Value, src: Value, first: Value, end: Value) -> None:
        r = fields(args, TRANSPOSE)
        n, line = (r.cols, r.row_d) if split else (r.rows, r.col_s)
        last = n - lanes
        for i in over(first, end, lanes):
            at = smaller(i, last)
            dense, lined = at * (k * itemsize), at * itemsize
            to, place = (lined, dense) if split else (dense, lined)
            _strip(dst + to, src + place, line, k, split, vector)

    @traced
    def strips(args: Value, dst: Value, src: Value, first: Value, end: Value) -> None:
        values = args, dst, src, first, end
        bodies = {k: partial(lines, k) for k in range(2, NARROW + 1)}
        few = fields(args, TRANSPOSE).few
        cases(few, {-k if split else k: partial(outlined, None, None, body, *values) for k, body in bodies.items()})

    return strips


def _strip(dst: Value, src: Value, line: Value, k: int, split: bool, vector: Type) -> None:
    """A vector of elements of each of k lines."""
    lines, dense = [line * i for i in range(k)], [I64(i * vector.size) for i in range(k)]
    reads, writes = (dense, lines) if split else (lines, dense)
    loads = [vector[src + offset] for offset in reads]
    for offset, moved in zip(writes, mix(loads, split), strict=True):
        vector[dst + offset] = moved
