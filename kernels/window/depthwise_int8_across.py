"""Depthwise convolution of bytes in vectors across pixels, for few channels; a square kernel of one size and stride."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import fields
from ..isa.byte_ops import copy_run, fill_run
from ..isa.lanes import PARTS
from ..isa.stores import store_some
from ..isa.tiers import Tier
from ..lang import U8, Value, choose, divide, over, pieces, register, remainder, share, smaller, traced
from .depthwise_int8 import sum_tile
from .pick_depthwise_int8 import Scheme, scheme_of
from .rows import DEPTHWISE_INT8_ACROSS
from .window import slots


def make_depthwise_across(tier: Tier, size: int, stride: int, wide: bool) -> Callable:
    """A row of outputs is one run of bytes, and each tap reads it at a fixed offset. wide: weights of 16 bits.

    Input rows are first copied to padded lines in scratch, columns of the same remainder by the stride into one plane.
    """
    scheme = scheme_of(tier, size, stride, wide)
    reach, rows = len(scheme.lines), scheme.rows
    row_of_vectors = _make_row(tier, scheme)

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args, DEPTHWISE_INT8_ACROSS)
        scratch = r.scratch + thread * r.scratch_bytes
        tiles = pieces(r.out_h, rows)
        zero = r.zero_x * 0x0101010101010101
        made, last = 0, -1
        start, stop = share(r.n * tiles, thread, threads)
        for unit in range(start, stop):
            image = divide(unit, tiles)
            row = smaller((unit - image * tiles) * rows, r.out_h - rows)
            if image != last:
                made, last = row * stride, image
            if made < row * stride:
                made = row * stride
            while made < row * stride + reach:
                to, up = scratch + remainder(made, r.lines) * r.line, made - r.pad_y
                made += 1
                if up < 0 or up >= r.h:
                    fill_run(to, zero, r.plane * stride)
                    continue
                source = r.x + (image * r.h + up) * r.w * r.ldx
                if stride == 1 and r.ldx == r.c:
                    end = smaller(r.w * r.c, r.plane - r.pad_x * r.c)
                    fill_run(to, zero, r.pad_x * r.c)
                    copy_run(to + r.pad_x * r.c, source, end)
                    fill_run(to + r.pad_x * r.c + end, zero, r.plane - r.pad_x * r.c - end)
                    continue
                for part in range(stride):
                    column, limit = part - r.pad_x, to + r.plane
                    while to < limit:
                        if column < 0 or column >= r.w:
                            fill_run(to, zero, r.c)
                        else:
                            copy_run(to, source + column * r.ldx, r.c)
                        to += r.c
                        column += stride
            row_of_vectors(args, r.y + (image * r.out_h + row) * r.out_w * r.c, row, scratch)

    return run


def _make_row(tier: Tier, scheme: Scheme) -> Any:
    """row_of_vectors(args, to, row, scratch): a row of outputs, or several, from padded lines in scratch."""
    width, constants = 4 * tier.lanes, (2 + len(scheme.terms)) * PARTS * 4 * tier.lanes
    size, stride, u8 = scheme.size, scheme.stride, U8.vector(width)

    @traced
    def row_of_vectors(args: Any, to: Any, row: Any, scratch: Any) -> None:
        r = slots(args, DEPTHWISE_INT8_ACROSS)
        first = row * stride
        sources = [scratch + remainder(first + at, r.lines) * r.line for at in scheme.lines]
        offsets = [r.plane * (q % stride) + r.c * (q // stride) for q in range(size)]
        length, end = r.out_w * r.c, r.period * constants
        phase = register(0)
        for at in over(0, length, width):
            mine = phase.value

            def load(line: int, j: int, at: Value = at) -> Value:
                return u8[sources[line] + (at + offsets[j])]

            def put(i: int, t: int, value: Value, at: Value = at) -> None:
                store_some(value, U8.at(to + (at + length * i)), length - at)

            sum_tile(r, scheme, 1, load, r.packed + mine, put)
            following = mine + constants
            phase.value = choose(following < end, following, 0)

    return row_of_vectors
