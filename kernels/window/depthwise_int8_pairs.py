"""Depthwise convolution of bytes in vectors across pixels, for tall windows, by products of pairs of i16.

Two rows of x are widened to one line of words in scratch, for some channels of all columns and with padding: a tap of a
row of outputs reads it at a fixed distance, and one instruction multiplies it by two rows of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.record import fields
from ..gemm.requantize import byte_rounder
from ..isa.byte_ops import copy_run, fill_run
from ..isa.integer import in_order
from ..isa.interleave import dot, store_pieces
from ..isa.tiers import Tier
from ..lang import (
    F32,
    I32,
    I64,
    U8,
    Registers,
    Type,
    Value,
    below,
    choose,
    divide,
    either,
    opaque,
    over,
    pieces,
    register,
    registers,
    remainder,
    share,
    smaller,
    tier,
    traced,
)
from .depthwise_int8 import scaled
from .rows import DEPTHWISE_INT8_PAIRS, MOST_PAIR_ROWS, PAIR_ROWS, STRIP
from .window import constants, slots, spread, steps


def make_depthwise_pairs(tier: Tier, stride: int) -> Callable:
    """Windows `stride` rows and columns apart. Rows of results are made in scratch, some at a time, and copied to y."""
    outputs = _make_outputs(stride)

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args, DEPTHWISE_INT8_PAIRS)
        start = r.scratch + thread * r.scratch_bytes
        fill_run(start, r.zero_x * 0x0101010101010101, r.blank)
        blocks, bands = pieces(r.c, r.block), pieces(r.out_h, r.band)
        begin, end = share(r.n * bands * blocks, thread, threads)
        for unit in range(begin, end):
            line, block = divide(unit, blocks), remainder(unit, blocks)
            outputs(args, start, divide(line, bands), remainder(line, bands) * r.band, block)

    return run


class Block(NamedTuple):
    """Some channels of an image, from `channel` on; int64 values. Scratch has r.blank bytes that are zero points, rows
    of results, and lines."""

    r: Any
    image: Value
    channel: Value
    blank: Value

    @property
    def results(self) -> Value:
        return self.blank + self.r.blank

    @property
    def lines(self) -> Value:
        return self.results + self.r.row * MOST_PAIR_ROWS


def _make_outputs(stride: int) -> Any:
    """outputs(args, scratch, image, top, block): the rows of a band from `top` on, of a block of channels."""

    @traced
    def outputs(args: Any, scratch: Any, image: Any, top: Any, block: Any) -> None:
        r = slots(args, DEPTHWISE_INT8_PAIRS)
        here = Block(r, image, block * r.block, scratch)
        bottom = smaller(top + r.band, r.out_h)
        for pair in over(pieces((bottom - top - 1) * stride + r.k_h, 2)):
            _widen(here, stride, here.lines + pair * r.line, top * stride - r.pad_y + 2 * pair)
        packed = r.packed + block * (4 * r.across * (2 + r.k_w * r.pairs * _phases(stride)))
        few, many = PAIR_ROWS[stride]
        for first in over(top, bottom, many):
            count = smaller(bottom - first, many)
            lines = here.lines + divide((first - top) * stride, 2) * r.line
            with either(count <= few) as ways:
                for way, rows in zip(ways, (few, many), strict=True):
                    with way:
                        for at in over(0, r.out_w * r.block, STRIP * tier().lanes):
                            _strip(here, stride, rows, lines, packed, at)
            _copy(here, first, count)

    return outputs


def _phases(stride: int) -> int:
    """In how many ways a window may begin within a pair of rows."""
    return 2 // stride


def _widen(here: Block, stride: int, to: Value, row: Value) -> None:
    """Make the line of rows `row` and the next: columns of the same remainder by the stride are in one plane."""
    r = here.r
    zero, pixel = r.zero_x * 0x0001000100010001, 4 * r.block
    columns = divide(r.plane, r.block)
    sources = [_row(here, row + i) for i in range(2)]
    for part in range(stride):
        left, at = part - r.pad_x, to + 4 * r.plane * part
        before, end = (steps(limit, left, I64(stride), columns) for limit in (I64(0), r.w))
        fill_run(at, zero, before * pixel)
        count, length = end - before, r.block
        if stride == 1:
            # All columns are one run where no other channels lie between them.
            dense = r.block == r.ldx
            count, length = choose(dense, smaller(count, 1), count), choose(dense, count * r.block, length)
        for i in over(count):
            column = left + (before + i) * stride
            words = [source + column * step for source, step in sources]
            _widen_run(at + (before + i) * pixel, words, length)
        fill_run(at + end * pixel, zero, (columns - end) * pixel)


def _row(here: Block, row: Value) -> tuple[Value, Value]:
    """(address, bytes from column to column) of a row of x, or of zero points where there is none."""
    r = here.r
    there, address = below(row, r.h), r.x + ((here.image * r.h + row) * r.w * r.ldx + here.channel)
    return choose(there, address, here.blank), choose(there, r.ldx, 0)


def _widen_run(to: Value, sources: Sequence[Value], length: Value) -> None:
    """Words of two bytes as i16, whole vectors of them."""
    u8, i32 = U8.vector(tier().lanes), I32.vector(tier().lanes)
    for i in over(0, length, u8.lanes):
        low, high = (u8[source + i].to(I32) for source in sources)
        i32[to + 4 * i] = low | high << 16


def _strip(here: Block, stride: int, rows: int, lines: Value, packed: Value, at: Value) -> None:
    """Results of `rows` rows in vectors from `at` on."""
    r, lanes = here.r, tier().lanes
    phase = remainder(at, r.across - (STRIP - 1) * lanes)
    start = I32.at(packed) + phase
    sums = registers(constants(I32.vector(lanes), start, STRIP) * rows)
    _add_columns(r, stride, sums, I32.at(lines) + at, start + 2 * r.across)
    factors, rounded = constants(F32.vector(lanes), F32.at(packed) + (phase + r.across), STRIP), byte_rounder(r)
    totals = sums.values()
    for t in range(0, rows, 2):
        found = in_order(rounded(scaled(totals[t * STRIP : (t + 2) * STRIP], factors * 2)))
        store_pieces(found, [U8.at(here.results + r.row * (t + k) + at) for k in range(2)])


def _add_columns(r: Any, stride: int, sums: Registers, x: Value, weights: Value) -> None:
    """Add all taps, column by column; x: what the first reads, weights: theirs."""
    for part in range(stride):
        for q in over(part, r.k_w, stride):
            pixel = x + (r.plane * part + divide(q, stride) * r.block)
            _add_column(r, _phases(stride), sums, pixel, weights + q * (r.pairs * _phases(stride)) * r.across)


def _add_column(r: Any, phases: int, sums: Registers, x: Value, tap: Value) -> None:
    """Add a column of taps, line by line: pair k of the window reads line t + k for rows t * phases and on."""
    kind: Type = sums.values()[0].type
    last = len(sums) // (STRIP * phases) - 1
    pixel, behind = register(x), register(tap)

    def add(outputs: range, taps: Sequence[Value]) -> None:
        """Add the next line to some outputs, of which the last takes the first of `taps`, and so on."""
        values = [kind[pixel.value + i * kind.lanes] for i in range(STRIP)]
        for t in outputs:
            for phase in range(phases):
                weights = constants(kind, taps[(outputs[-1] - t) * phases + phase], STRIP)
                for k, (value, weight) in enumerate(zip(values, weights, strict=True), (t * phases + phase) * STRIP):
                    sums[k] = dot(sums[k], value, weight, True)
        pixel.value = pixel.value + divide(r.line, 4)

    # Weights are read again for each line: kept, they would take the registers of sums.
    for j in range(last):
        add(range(j + 1), spread(opaque(tap), r.across, last * phases))
    for _ in over(r.pairs - last):
        add(range(last + 1), spread(behind.value, r.across, (last + 1) * phases))
        behind.value = behind.value + r.across * phases
    for j in range(last):
        add(range(j + 1, last + 1), spread(opaque(behind.value), r.across, last * phases)[j * phases :])


def _copy(here: Block, first: Value, count: Value) -> None:
    """Copy rows of results to y, from row `first` on."""
    r = here.r
    one = r.block == r.ldy
    pixels, length = choose(one, 1, r.out_w), choose(one, r.out_w * r.c, smaller(r.block, r.c - here.channel))
    y = r.y + ((here.image * r.out_h + first) * r.out_w * r.ldy + here.channel)
    for t in over(count):
        for i in over(pixels):
            copy_run(y + (t * r.out_w + i) * r.ldy, here.results + r.row * t + i * r.block, length)
