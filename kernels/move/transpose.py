"""Batched 2-D transposes in registers, the core of every permutation that moves the innermost axis.

A source of `cols` rows with `rows` contiguous elements each becomes `rows` rows with `cols` contiguous
elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir

from ..core.record import loaded, reader
from ..isa.byte_ops import choose, read, write
from ..isa.loops import apart, div_rem, lesser, loop, pieces, smaller, thread_range
from ..isa.tiers import Tier
from ..isa.vector import I1, I32, I64, emits
from .outer_loops import outer_address, outer_count
from .rows import NARROW, TRANSPOSE
from .shuffles import mix, tile_lanes, transpose_square


def transpose(tier: Tier, itemsize: int, narrow: int) -> Callable:
    """The kernel that transposes a batch of matrices of `itemsize`-byte elements.

    `narrow` = 0 takes any shape, in square tiles. The others have at least `tile_lanes` places on one side, and k of 2
    to NARROW on the other: 1 interleaves k = cols lines into dense rows, and the record's `few` is k; -1 deals dense
    rows out to k = rows lines, and `few` is -k.
    """
    if narrow:
        return _narrow(tier, itemsize, narrow < 0)
    lanes = tile_lanes(tier, itemsize)
    tile, edge = _tile(itemsize, lanes), _edge(itemsize, lanes)
    fields, outer, address = reader(TRANSPOSE), outer_count(TRANSPOSE), outer_address(TRANSPOSE)

    def kernel(args, thread, threads):
        r = fields(args)
        down, across = pieces(r.rows, r.high), pieces(r.cols, r.wide)
        begin, end = thread_range(outer(args) * down * across, thread, threads)
        whole = r.rows >= lanes and r.cols >= lanes
        while begin < end:
            line, right = div_rem(begin, across)
            o, below = div_rem(line, down)
            row, col = below * r.high, right * r.wide
            begin += 1
            to, at = address(args, o, r.dst, r.src)
            for i in range(row, smaller(r.rows, row + r.high), lanes):
                for j in range(col, smaller(r.cols, col + r.wide), lanes):
                    if whole:
                        y, x = smaller(i, r.rows - lanes), smaller(j, r.cols - lanes)
                        tile(to + y * r.row_d + x * itemsize, at + x * r.col_s + y * itemsize, r.row_d, r.col_s)
                    else:
                        edge(to + i * r.row_d + j * itemsize, at + j * r.col_s + i * itemsize, r.row_d, r.col_s,
                             r.rows - i, r.cols - j)  # fmt: skip

    return kernel


def _narrow(tier: Tier, itemsize: int, split: bool) -> Callable:
    strips, fields = _strips(itemsize, tile_lanes(tier, itemsize), split), reader(TRANSPOSE)
    outer, address = outer_count(TRANSPOSE), outer_address(TRANSPOSE)

    def kernel(args, thread, threads):
        r = fields(args)
        n = r.cols if split else r.rows
        count = pieces(n, r.high)
        begin, end = thread_range(outer(args) * count, thread, threads)
        while begin < end:
            o, piece = div_rem(begin, count)
            first = piece * r.high
            begin += 1
            to, at = address(args, o, r.dst, r.src)
            strips(args, to, at, first, smaller(n, first + r.high))

    return kernel


def _vector(itemsize: int, lanes: int) -> Any:
    return ir.VectorType(ir.IntType(8 * itemsize), lanes)


def _tile(itemsize: int, lanes: int) -> Callable:
    """`tile(dst, src, row_d, col_s)`: one whole square."""
    kind = _vector(itemsize, lanes)

    @emits
    def tile(b: Any, dst: Any, src: Any, row_d: Any, col_s: Any) -> None:
        vectors = [read(b, b.add(src, b.mul(col_s, I64(i))), kind) for i in range(lanes)]
        for i, vector in enumerate(transpose_square(b, vectors, itemsize)):
            write(b, vector, b.add(dst, b.mul(row_d, I64(i))))

    return tile


def _edge(itemsize: int, lanes: int) -> Callable:
    """`edge(dst, src, row_d, col_s, rows, cols)`: the part of a square that exists, at least 1 x 1.

    Reads whole vectors, so up to a vector past the last element of a source row.
    """
    kind = _vector(itemsize, lanes)

    @emits
    def edge(b: Any, dst: Any, src: Any, row_d: Any, col_s: Any, rows: Any, cols: Any) -> None:
        last = b.sub(cols, I64(1))
        loads = []
        for i in range(lanes):
            inside = b.icmp_signed("<", I64(i), cols)
            loads.append(read(b, b.add(src, b.mul(col_s, b.select(inside, I64(i), last))), kind))
        mask = _first(b, cols, lanes)
        for i, vector in enumerate(transpose_square(b, loads, itemsize)):
            with b.if_then(b.icmp_signed("<", I64(i), rows)):
                _store_masked(b, vector, b.add(dst, b.mul(row_d, I64(i))), mask)

    return edge


def _strips(itemsize: int, lanes: int, split: bool) -> Callable:
    """`strips(args, dst, src, first, end)`: places first..end of the k lines that `few` says."""

    @emits
    def strips(b: Any, args: Any, dst: Any, src: Any, first: Any, end: Any) -> None:
        values, kind = (args, dst, src, first, end), _vector(itemsize, lanes)
        bodies = {k: partial(_walk, k=k, split=split, kind=kind) for k in range(2, NARROW + 1)}
        few = loaded(b, args, TRANSPOSE).few
        choose(b, few, {-k if split else k: partial(apart, b, values, body) for k, body in bodies.items()})

    return strips


def _walk(b: Any, args: Any, dst: Any, src: Any, first: Any, end: Any, k: int, split: bool, kind: Any) -> None:
    r, itemsize = loaded(b, args, TRANSPOSE), kind.element.width // 8
    n, line = (r.cols, r.row_d) if split else (r.rows, r.col_s)
    last = b.sub(n, I64(kind.count))
    with loop(b, first, end, kind.count) as i:
        at = lesser(b, i, last)
        dense, lined = b.mul(at, I64(k * itemsize)), b.mul(at, I64(itemsize))
        to, place = (lined, dense) if split else (dense, lined)
        _strip(b, b.add(dst, to), b.add(src, place), line, k, split, kind)


def _strip(b: Any, dst: Any, src: Any, line: Any, k: int, split: bool, kind: Any) -> None:
    """A vector of places of each of k lines."""
    nbytes = kind.count * kind.element.width // 8
    lines, dense = [b.mul(line, I64(i)) for i in range(k)], [I64(i * nbytes) for i in range(k)]
    reads, writes = (dense, lines) if split else (lines, dense)
    loads = [read(b, b.add(src, offset), kind) for offset in reads]
    for offset, vector in zip(writes, mix(b, loads, split), strict=True):
        write(b, vector, b.add(dst, offset))


def _first(b: Any, count: Any, lanes: int) -> Any:
    """The mask of the lanes below `count`."""
    kind = ir.VectorType(I32, lanes)
    clipped = b.select(b.icmp_signed("<", count, I64(lanes)), count, I64(lanes))
    undef = ir.Constant(kind, ir.Undefined)
    one = b.insert_element(undef, b.trunc(clipped, I32), I32(0))
    every = b.shuffle_vector(one, undef, ir.Constant(kind, [0] * lanes))
    return b.icmp_signed("<", ir.Constant(kind, list(range(lanes))), every)


def _store_masked(b: Any, value: Any, address: Any, mask: Any) -> None:
    kind = value.type
    pointer = b.inttoptr(address, kind.as_pointer())
    name = f"llvm.masked.store.v{kind.count}i{kind.element.width}.p0"
    signature = ir.FunctionType(ir.VoidType(), [kind, pointer.type, I32, ir.VectorType(I1, kind.count)])
    module = b.module
    store = module.globals.get(name) or ir.Function(module, signature, name)
    b.call(store, [value, pointer, I32(1), mask])
