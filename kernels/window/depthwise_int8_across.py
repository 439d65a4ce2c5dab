"""Depthwise convolution of bytes in vectors across pixels, for few channels; a square kernel of one size and stride."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..isa.byte_ops import run_copier, run_filler
from ..isa.interleave import load_bytes, store_some
from ..isa.lanes import PARTS
from ..isa.loops import divide, loop, remainder, smaller, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import I8, I64, Vector, emits
from .depthwise_int8 import emit_tile
from .pick_depthwise_int8 import scheme_of
from .rows import DEPTHWISE_INT8_ACROSS
from .window import slots


def make_depthwise_across(tier: Tier, size: int, stride: int, wide: bool) -> Callable:
    """A row of outputs is one run of bytes, a tap a distance from it. wide: weights of 16 bits.

    Input rows are copied to padded lines in scratch first, the columns of each remainder by the stride to a plane of
    their own.
    """
    scheme = scheme_of(tier, size, stride, wide)
    width, constants = 4 * tier.lanes, (2 + len(scheme.terms)) * PARTS * 4 * tier.lanes
    fields, copy, fill = reader(DEPTHWISE_INT8_ACROSS), run_copier(tier), run_filler(tier)
    reach, rows = len(scheme.lines), scheme.rows

    @emits
    def row_of_vectors(b: Any, args: Any, to: Any, row: Any, scratch: Any) -> None:
        v = Vector(b, tier)
        r = slots(b, args, DEPTHWISE_INT8_ACROSS)
        first = b.mul(row, I64(stride))
        sources = [b.add(scratch, b.mul(b.urem(b.add(first, I64(at)), r.lines), r.line)) for at in scheme.lines]
        offsets = [b.add(b.mul(r.plane, I64(q % stride)), b.mul(r.c, I64(q // stride))) for q in range(size)]
        length = b.mul(r.ow, r.c)
        end = b.mul(r.period, I64(constants))
        phase = variable(b, I64(0))
        with loop(b, 0, length, width) as at:
            mine = b.load(phase)

            def load(line: int, j: int) -> Any:
                return load_bytes(v, v.pointer(b.add(sources[line], b.add(at, offsets[j])), I8))

            def put(i: int, t: int, value: Any) -> None:
                place = v.pointer(b.add(to, b.add(at, b.mul(length, I64(i)))), I8)
                store_some(v, value, place, b.sub(length, at))

            emit_tile(v, r, scheme, 1, load, b.add(r.packed, mine), put)
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
                made, last = row * stride, image
            if made < row * stride:
                made = row * stride
            while made < row * stride + reach:
                to, up = scratch + remainder(made, r.lines) * r.line, made - r.pad_top
                made += 1
                if up < 0 or up >= r.h:
                    fill(to, zero, r.plane * stride)
                    continue
                source = r.x + (image * r.h + up) * r.w * r.ldx
                if stride == 1 and r.ldx == r.c:
                    end = smaller(r.w * r.c, r.plane - r.pad_left * r.c)
                    fill(to, zero, r.pad_left * r.c)
                    copy(to + r.pad_left * r.c, source, end)
                    fill(to + r.pad_left * r.c + end, zero, r.plane - r.pad_left * r.c - end)
                    continue
                for part in range(stride):
                    column, limit = part - r.pad_left, to + r.plane
                    while to < limit:
                        if column < 0 or column >= r.w:
                            fill(to, zero, r.c)
                        else:
                            copy(to, source + column * r.ldx, r.c)
                        to += r.c
                        column += stride
            row_of_vectors(args, r.y + (image * r.oh + row) * r.ow * r.c, row, scratch)

    return run
