"""Depthwise convolution of bytes, channels last, for one kernel size, stride and dilation.

The bytes of four input rows (two, as 16-bit numbers, where four can't be multiplied exactly at once) are interleaved,
so that one instruction sums a column of the kernel for a vector of channels; a group of rows serves all the output
rows and columns that need it. Padding is the zero point of x. What doesn't fill the last tile or vector of a row is
computed as part of a tile or vector that begins earlier: the same bytes are written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ..core.record import reader
from ..gemm.requantize import byte_rounder
from ..isa.byte_ops import run_copier, run_filler
from ..isa.integer import bytes_type
from ..isa.interleave import dot, interleave, load_bytes, load_pieces, store_bytes, store_first, store_pieces
from ..isa.lanes import PARTS
from ..isa.loops import divide, lesser, loop, remainder, smaller, thread_range
from ..isa.tiers import Tier
from ..isa.vector import I8, I64, Vector, emits
from .pick_depthwise_int8 import Scheme
from .rows import DEPTHWISE_INT8, DEPTHWISE_INT8_ACROSS
from .window import slots, spread

Load = Callable[[int, int], Any]
"""(index into a scheme's lines, input column) -> its vector of bytes."""
Finish = Callable[[Sequence[Any], Sequence[Any]], Any]
"""(PARTS vectors of sums, of multipliers) -> a vector of bytes."""


def make_finish(v: Vector, r: Any) -> Finish:
    """What scales sums and rounds them as the slots of a record say."""
    b, rounded = v.b, byte_rounder(v, r)

    def finish(sums: Sequence[Any], factors: Sequence[Any]) -> Any:
        return rounded([b.fmul(b.sitofp(s, v.type), f) for s, f in zip(sums, factors, strict=True)])

    return finish


def emit_tile(
    v: Vector,
    scheme: Scheme,
    tile: int,
    sw: int,
    dw: int,
    load: Load,
    packed: Any,
    finish: Finish,
    put: Callable[[int, int, Any], None],
) -> None:
    """Emit the sums of `tile` outputs in each row of the scheme; put(row, output, bytes) stores a vector of them."""
    b, size = v.b, 4 * v.lanes
    span = (tile - 1) * sw + (scheme.kw - 1) * dw + 1
    # Outputs that share each load of weights, as far as their sums and columns find registers. Where columns are many,
    # they are interleaved again for the next outputs: that costs less than keeping them.
    crowded = sw == 1 and (scheme.kw + 1) * len(scheme.sources) * PARTS > v.tier.registers
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
                places = [(source[0], j + k * dw) for k in range(scheme.group) if j + k * dw < span]
            rows = [load(*place) for place in places]
            rows += [ir.Constant(bytes_type(v), [0] * size)] * (scheme.group - len(rows))
            columns[j, s] = interleave(v, rows)
        return columns[j, s]

    for first in range(0, tile, together):
        outputs = range(first, min(first + together, tile))
        if crowded:
            columns.clear()
        bias = [constants(0, part, v.itype) for part in range(PARTS)]
        sums = {(i, t): list(bias) for i in range(scheme.rows) for t in outputs}
        for index, (i, s, q) in enumerate(scheme.terms):
            for part in range(PARTS):
                w = constants(2 + index, part, v.itype)
                for t in outputs:
                    x = column(t * sw + q * dw, s)[part]
                    sums[i, t][part] = dot(v, sums[i, t][part], x, w, scheme.group == 2)
        factors = [constants(1, part, v.type) for part in range(PARTS)]
        for (i, t), totals in sums.items():
            put(i, t, finish(totals, factors))


def make_depthwise(
    tier: Tier,
    kh: int,
    kw: int,
    sh: int,
    sw: int,
    dh: int,
    dw: int,
    rows: int,
    wide: bool,
    tile: int,
    lanes: int,
    partial: bool,
    pieces: int,
) -> Callable:
    """Vectors of `4 * lanes` channels of a pixel: columns of interleaved input are shared by several outputs.

    With several `pieces`, a vector has all channels of as many pixels, which lie as many parts of a row apart.
    """
    scheme = Scheme(kh, kw, sh, dh, rows, 2 if wide else 4)
    width, constants = 4 * lanes, (2 + len(scheme.terms)) * PARTS * 4 * lanes
    assert pieces == 1 or not partial
    reach = (kw - 1) * dw
    span = (tile - 1) * sw + reach + 1
    outer = {j for j in range(span) if j < reach or j >= span - reach}
    fields = reader(DEPTHWISE_INT8)

    @emits
    def row_of_tiles(b: Any, args: Any, image: Any, row: Any, block: Any) -> None:
        v = Vector(b, tier, lanes)
        r = slots(b, args, DEPTHWISE_INT8)
        finish = make_finish(v, r)
        packed = b.add(r.packed, b.mul(block, I64(constants)))
        channel = b.mul(block, I64(width))
        if not partial and pieces == 1:
            channel = lesser(b, channel, b.sub(r.c, I64(width)))
        up = b.sub(b.mul(row, I64(sh)), r.pad_top)
        sources, exist = [], []
        for line in scheme.lines:
            at = b.add(up, I64(line))
            exist.append(b.icmp_unsigned("<", at, r.h))
            sources.append(b.add(r.x, b.add(b.mul(b.mul(b.add(b.mul(image, r.h), at), r.w), r.ldx), channel)))
        target = b.add(r.y, b.add(b.mul(b.mul(b.add(b.mul(image, r.oh), row), r.ow), r.ldy), channel))
        blank = v.pointer(r.fill, I8)
        part = b.udiv(b.add(r.ow, I64(pieces - 1)), I64(pieces))
        with loop(b, 0, part, tile) as at:
            starts = [lesser(b, b.add(at, b.mul(part, I64(k))), b.sub(r.ow, I64(tile))) for k in range(pieces)]
            lefts = [b.sub(b.mul(start, I64(sw)), r.pad_left) for start in starts]
            inside = [{j: b.icmp_unsigned("<", b.add(left, I64(j)), r.w) for j in outer} for left in lefts]
            pixels = [
                [
                    spread(b, v.pointer(b.select(there, b.add(source, b.mul(left, r.ldx)), r.fill), I8), r.ldx, span, 1)
                    for there, source in zip(exist, sources, strict=True)
                ]
                for left in lefts
            ]
            outputs = [
                [
                    spread(b, v.pointer(b.add(target, b.mul(b.add(line, start), r.ldy)), I8), r.ldy, tile, 1)
                    for line in (b.mul(I64(i), r.ow) for i in range(rows))
                ]
                for start in starts
            ]

            def load(line: int, j: int) -> Any:
                places = [
                    b.select(exists[j], of[line][j], blank) if j in exists else of[line][j]
                    for of, exists in zip(pixels, inside, strict=True)
                ]
                return load_pieces(v, places)

            def put(i: int, t: int, value: Any) -> None:
                if partial:
                    store_first(v, value, outputs[0][i][t], r.c)
                else:
                    store_pieces(v, value, [of[i][t] for of in outputs])

            emit_tile(v, scheme, tile, sw, dw, load, packed, finish, put)

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
                row_of_tiles(args, image, smaller(row, r.oh - rows), unit - above * blocks)

    return run


def make_depthwise_across(
    tier: Tier, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, rows: int, wide: bool
) -> Callable:
    """Vectors across pixels, for few channels: a row of outputs is one run of bytes, a tap a distance from it.

    Input rows are copied to padded lines in scratch first, the columns of each remainder by sw to a plane of their own.
    """
    scheme = Scheme(kh, kw, sh, dh, rows, 2 if wide else 4)
    width, constants = 4 * tier.lanes, (2 + len(scheme.terms)) * PARTS * 4 * tier.lanes
    fields, copy, fill = reader(DEPTHWISE_INT8_ACROSS), run_copier(tier), run_filler(tier)
    reach = scheme.lines[-1] + 1

    @emits
    def row_of_vectors(b: Any, args: Any, to: Any, row: Any, scratch: Any) -> None:
        v = Vector(b, tier)
        r = slots(b, args, DEPTHWISE_INT8_ACROSS)
        finish = make_finish(v, r)
        first = b.mul(row, I64(sh))
        sources = [b.add(scratch, b.mul(b.urem(b.add(first, I64(at)), r.lines), r.line)) for at in scheme.lines]
        offsets = [b.add(b.mul(r.plane, I64(q * dw % sw)), b.mul(r.c, I64(q * dw // sw))) for q in range(kw)]
        length = b.mul(r.ow, r.c)
        end = b.mul(r.period, I64(constants))
        with b.goto_entry_block():
            phase = b.alloca(I64)
        b.store(I64(0), phase)
        with loop(b, 0, length, width) as at:
            mine = b.load(phase)

            def load(line: int, j: int) -> Any:
                return load_bytes(v, v.pointer(b.add(sources[line], b.add(at, offsets[j])), I8))

            def put(i: int, t: int, value: Any) -> None:
                place = v.pointer(b.add(to, b.add(at, b.mul(length, I64(i)))), I8)
                left = b.sub(length, at)
                with b.if_else(b.icmp_signed(">=", left, I64(width)), likely=True) as (whole, part):
                    with whole:
                        store_bytes(v, value, place)
                    with part:
                        store_first(v, value, place, left)

            emit_tile(v, scheme, 1, 1, 1, load, b.add(r.packed, mine), finish, put)
            following = b.add(mine, I64(constants))
            b.store(b.select(b.icmp_signed("<", following, end), following, I64(0)), phase)

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        scratch = r.scratch + thread * r.scratch_bytes
        tiles = divide(r.oh + rows - 1, rows)
        zero = r.zero_x * 0x0101010101010101
        made, last = 0, -1
        start, stop = thread_range(r.n * tiles, thread, threads)
        for unit in range(start, stop):
            image = divide(unit, tiles)
            row = smaller((unit - image * tiles) * rows, r.oh - rows)
            if image != last:
                made, last = row * sh, image
            if made < row * sh:
                made = row * sh
            while made < row * sh + reach:
                to, up = scratch + remainder(made, r.lines) * r.line, made - r.pad_top
                made += 1
                if up < 0 or up >= r.h:
                    fill(to, zero, r.plane * sw)
                    continue
                source = r.x + (image * r.h + up) * r.w * r.ldx
                if sw == 1 and r.ldx == r.c:
                    end = smaller(r.w * r.c, r.plane - r.pad_left * r.c)
                    fill(to, zero, r.pad_left * r.c)
                    copy(to + r.pad_left * r.c, source, end)
                    fill(to + r.pad_left * r.c + end, zero, r.plane - r.pad_left * r.c - end)
                    continue
                for part in range(sw):
                    column, limit = part - r.pad_left, to + r.plane
                    while to < limit:
                        if column < 0 or column >= r.w:
                            fill(to, zero, r.c)
                        else:
                            copy(to, source + column * r.ldx, r.c)
                        to += r.c
                        column += sw
            row_of_vectors(args, r.y + (image * r.oh + row) * r.ow * r.c, row, scratch)

    return run
