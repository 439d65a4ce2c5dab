"""Depthwise convolution of bytes for any window of two dimensions, one output channel per input channel.

As depthwise_int8.py, rows of the window are interleaved four (or two) at a time, but for one output and one column of
the window: any strides and dilations will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..gemm.requantize import byte_rounder
from ..isa.interleave import dot, interleave, load_bytes, store_some
from ..isa.lanes import PARTS
from ..isa.loops import divide, lesser, loop, remainder, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import I8, I64, Vector, emits
from .pick_depthwise_int8 import group_of
from .rows import DEPTHWISE_INT8_WINDOW
from .window import slots


def make_depthwise_window(tier: Tier, wide: bool) -> Callable:
    """Vectors of `4 * lanes` channels of a pixel. wide: weights of 16 bits."""
    fields, width, group = reader(DEPTHWISE_INT8_WINDOW), 4 * tier.lanes, group_of(wide)
    tile, term = (4 if tier.registers == 32 else 2), PARTS * width

    @emits
    def outputs(b: Any, args: Any, image: Any, row: Any, block: Any, at: Any) -> None:
        """Those of a row of y from `at` on: `tile`, or what there is."""
        v = Vector(b, tier)
        r = slots(b, args, DEPTHWISE_INT8_WINDOW)
        channel = b.select(b.icmp_signed(">", r.c, I64(width)), b.sub(r.c, I64(width)), I64(0))
        channel = lesser(b, b.mul(block, I64(width)), channel)
        groups = b.udiv(b.add(r.kh, I64(group - 1)), I64(group))
        terms = b.add(b.mul(groups, r.kw), I64(2))
        packed = b.add(r.packed, b.mul(block, b.mul(terms, I64(term))))
        up, left = b.sub(b.mul(row, r.sh), r.pad_top), b.sub(b.mul(at, r.sw), r.pad_left)
        plane = b.add(r.x, channel)

        def constants(first: Any, kind: Any) -> list[Any]:
            places = [b.add(first, I64(part * width)) for part in range(PARTS)]
            return [b.load(b.inttoptr(place, kind.as_pointer()), align=1) for place in places]

        sums = [[variable(b, x) for x in constants(packed, v.itype)] for _ in range(tile)]
        with loop(b, 0, groups, 1) as g:
            lines, exist = [], []
            for k in range(group):
                y = b.add(up, b.mul(b.add(b.mul(g, I64(group)), I64(k)), r.dh))
                lines.append(b.add(plane, b.mul(b.mul(b.add(b.mul(image, r.h), y), r.w), r.ldx)))
                exist.append(b.icmp_unsigned("<", y, r.h))
            with loop(b, 0, r.kw, 1) as q:
                weights = constants(b.add(packed, b.mul(b.add(b.add(b.mul(g, r.kw), q), I64(2)), I64(term))), v.itype)
                for t in range(tile):
                    column = b.add(left, b.add(b.mul(q, r.dw), b.mul(r.sw, I64(t))))
                    inside, skip = b.icmp_unsigned("<", column, r.w), b.mul(column, r.ldx)
                    places = [
                        b.select(b.and_(there, inside), b.add(line, skip), r.fill)
                        for line, there in zip(lines, exist, strict=True)
                    ]
                    parts = interleave(v, [load_bytes(v, v.pointer(place, I8)) for place in places])
                    for total, part, weight in zip(sums[t], parts, weights, strict=True):
                        b.store(dot(v, b.load(total), part, weight, wide), total)
        rounded, factors = byte_rounder(v, r), constants(b.add(packed, I64(term)), v.type)
        first = b.add(b.mul(b.add(b.mul(image, r.oh), row), r.ow), at)
        for t in reversed(range(tile)):
            # What is no output goes to the place of the first, which is written after it.
            there = b.select(b.icmp_signed("<", b.add(at, I64(t)), r.ow), I64(t), I64(0))
            place = b.add(b.add(r.y, channel), b.mul(b.add(first, there), r.ldy))
            reals = [b.fmul(b.sitofp(b.load(total), v.type), f) for total, f in zip(sums[t], factors, strict=True)]
            store_some(v, rounded(reals), v.pointer(place, I8), r.c)

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        blocks = divide(r.c + (width - 1), width)
        start, stop = thread_range(r.n * r.oh * blocks, thread, threads)
        for unit in range(start, stop):
            line = divide(unit, blocks)
            image = divide(line, r.oh)
            for at in range(0, r.ow, tile):
                outputs(args, image, remainder(line, r.oh), unit - line * blocks, at)

    return run
