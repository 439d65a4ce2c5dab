"""Shared by depthwise convolutions and pools: the loops around a row of outputs, window offsets, and which taps exist.

Loads take whole vectors even where fewer channels are left: what follows a tensor or a constant may be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..core.record import Record, fields
from ..isa.integer import dot_halves
from ..lang import Registers, Value, constant_memory, over, pieces, register, settle, share, tier, traced, when, whole
from ..lang.instructions import choose, divide, fma, larger, remainder, smaller
from ..lang.types import F32, I64, Type, integer

Range = tuple[Value, Value]
"""From the first to behind the last."""


class Maps(NamedTuple):
    """The address of what an image has in row 0, column 0 and channel 0, and elements from pixel to pixel; and of the
    weights of the first tap for channel 0, and f32 from tap to tap."""

    x: Value
    ldx: Value
    weights: Value
    ldw: Value


@dataclass(frozen=True)
class Place:
    """The position of a tile, as int64 values. `args`: the record's address; channels `channel` to `end`; `row` counts
    rows of y in all planes of an image. `columns`: those of y that are computed; `maps`: where x is read, if not where
    it lies."""

    args: Value
    image: Value
    row: Value
    channel: Value
    end: Value
    columns: Range
    maps: Maps | None = None


def slots(args: Value, record: Record, first: int = 0) -> Any:
    """A record's slots by name, which nothing writes."""
    return fields(args, record, first=first, constant=True)


def constants(kind: Type, pointer: Value, count: int) -> list[Value]:
    """Some vectors of constants, one after the other."""
    return [constant_memory(kind[pointer + i * kind.lanes]) for i in range(count)]


def existing(bits: Value | None, index: int) -> Any:
    """A context whose code runs if bit `index` of `bits` is set; always when `bits` is None."""
    return when(None if bits is None else bits & (1 << index) != 0)


def spread(pointer: Value, stride: Value, count: int) -> list[Value]:
    """Pointers at 0, 1, ... count - 1 strides of elements. Each is a base plus 1, 2 or 4 times one of few odd
    multiples, which x86 adds within a load."""
    kind = pointer.type.target
    assert kind is not None
    odd = {m: stride * m for m in (1, 3, 5, 7) if m < count}
    base, pointers = pointer, []
    for j in range(count):
        k = j % 8
        if j and not k:
            base = base + stride * 8
        scale = k & -k or 1
        pointers.append(kind.at(integer(kind.bits * scale).at(base) + odd[k // scale]) if k else base)
    return pointers


def nest(
    record: Record, row_of_outputs: Callable[[Place], None], height: int = 1, copied: Type | None = None
) -> Callable:
    """The kernel function that covers y with what `row_of_outputs` computes, as in `covers`."""
    outputs = covers(record, row_of_outputs, height, copied)

    def run(args: int, thread: int, threads: int) -> None:
        outputs(args, thread, threads)

    return run


def nest_or_across(record: Record, row_of_outputs: Callable[[Place], None], across: Callable[..., None]) -> Callable:
    """The kernel function that does as `nest` for records whose slot `across` is 0, and `across` for others."""
    by_channel = covers(record, row_of_outputs)

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args, record)
        if r.across:
            across(args, thread, threads)
        else:
            by_channel(args, thread, threads)

    return run


def covers(
    record: Record, row_of_outputs: Callable[[Place], None], height: int = 1, copied: Type | None = None
) -> Callable:
    """A traced function that covers y with what `row_of_outputs(place)` computes: the place's columns of a row of
    outputs by channels, or of `height` rows from the place's on. The last of these begin earlier, or at row 0 and go on
    behind y, where rows are lacking.

    A thread takes bands of rows by runs of columns by blocks of channels, as the record says. copied: the type of the
    vectors in which what a band reads is copied, where the record's `copied` says so.
    """

    @traced
    def outputs(args: Any, thread: Any, threads: Any) -> None:
        r = slots(args, record)
        rows = r.out_d * r.out_h
        blocks, bands, runs = pieces(r.c, r.block), pieces(rows, r.band), pieces(r.out_w, r.run)
        for unit in over(*share(r.n * bands * runs * blocks, thread, threads)):
            line, block = divide(unit, blocks), remainder(unit, blocks)
            band, left = divide(line, runs), remainder(line, runs) * r.run
            image, top = divide(band, bands), remainder(band, bands) * r.band
            channel = block * r.block
            end, bottom = smaller(channel + r.block, r.c), smaller(top + r.band, rows)
            here = Place(args, image, top, channel, end, (left, smaller(left + r.run, r.out_w)))
            maps = _maps(r, here, bottom, copied, r.scratch + thread * r.scratch_bytes) if copied else None
            for first in over(top, bottom, height):
                row = first if height == 1 else larger(smaller(first, rows - height), 0)
                row_of_outputs(replace(here, row=row, maps=maps))

    return outputs


def _maps(r: Any, place: Place, bottom: Value, kind: Type, scratch: Value) -> Maps:
    """x and the weights, or copies in scratch of the channels of a block: of the weights, and of the rows that those of
    outputs from the place's to `bottom` read."""
    size = kind.number.size
    x, ldx = register(r.x + size * (place.image * r.h * r.w * r.ldx)), register(r.ldx)
    weights, ldw = register(r.weights), register(r.c)
    with when(r.copied != 0):
        first = larger(place.row * r.stride_y - r.pad_y, 0)
        end = smaller((bottom - 1) * r.stride_y - r.pad_y + (r.k_h - 1) * r.dilation_y + 1, r.h)
        count, taps, f32 = place.end - place.channel, r.k_h * r.k_w, F32.vector(kind.lanes)
        source = F32.at(r.weights) + place.channel
        _copy_pixels((F32.at(scratch), r.copied), (source, r.c), (taps, count), f32)
        below = scratch + F32.size * (taps * r.copied)
        pixel = kind.number.at(x.value) + (first * r.w * r.ldx + place.channel)
        _copy_pixels((kind.number.at(below), r.copied), (pixel, r.ldx), ((end - first) * r.w, count), kind)
        x.value, ldx.value = below - size * (first * r.w * r.copied + place.channel), r.copied
        weights.value, ldw.value = scratch - F32.size * place.channel, r.copied
    return Maps(x.value, ldx.value, weights.value, ldw.value)


def _copy_pixels(to: tuple[Value, Value], source: tuple[Value, Value], counts: tuple[Value, Value], kind: Type) -> None:
    """Copy (pixels, channels of each) in vectors of a type; to, source: the first one's pointer and elements from pixel
    to pixel."""
    (pixels, channels), here, there = counts, register(source[0]), register(to[0])
    last = whole(channels - 1, kind.lanes)
    for _ in over(pixels):
        for at in over(0, last + kind.lanes, 2 * kind.lanes):
            for part in (at, smaller(at + kind.lanes, last)):
                kind[there.value + part] = kind[here.value + part]
        here.value, there.value = here.value + source[1], there.value + to[1]


def add_column(
    sums: Registers, users: Sequence[tuple[int, int]], x: Sequence[Value], weights: Any, settled: bool = True
) -> None:
    """Add what the vectors x of a column give to sums[t * len(x) + i], of output t and vector i, for (output, tap) of
    the column's users; weights[tap][i]: f32, words of two bf16 where sums are f32, or integers of 16 bits in lanes of
    32. settled: of several vectors, before the next is loaded.
    """
    for t, tap in users:
        for i, value in enumerate(x):
            total, w = sums[t * len(x) + i], weights[tap][i]
            if w.type.real:
                sums[t * len(x) + i] = fma(value, w, total)
            else:
                pairs = total.type.real
                sums[t * len(x) + i] = tier().isa.dot_pairs(total, value, w) if pairs else total + dot_halves(value, w)
    if settled and len(x) > 1 and tier().registers >= 32:
        settle(sums, [t * len(x) + i for t, _ in users for i in range(len(x))])


def low_bits(count: Value, limit: int) -> Value:
    """An int64 whose lowest `count` bits are set, with count brought into [0, limit]; limit < 64."""
    return (I64(1) << brought(count, limit)) - 1


def vectors_of(r: Any, place: Place, kind: Type, vectors: int = 1) -> Iterator[Value]:
    """`for channel in vectors_of(...)`: the first channel of each group of vectors of a block. Vectors of f32 may
    extend beyond the block's end; those of bytes begin earlier instead, where there are as many channels."""
    width = vectors * kind.lanes
    for channel in over(place.channel, place.end, width):
        yield channel if kind.number.real else within(channel, r.c, width)


def within(channel: Value, channels: Value, width: int) -> Value:
    """The first channel of the vector of `width` channels that covers this one: moved down where it would go beyond the
    last channel, 0 where there are not as many."""
    return smaller(channel, choose(channels > width, channels - width, 0))


def brought(x: Value, limit: Any) -> Any:
    """x clamped to [0, limit]."""
    return larger(smaller(x, limit), 0)


@traced
def steps(end: Any, begin: Value, step: Value, count: Any) -> Any:
    """How many of begin, begin + step, ... (count of them) are below `end`."""
    room = larger(end - begin, 0)
    found = register(room)
    with when(step != 1):
        found.value = divide(room + step - 1, step)
    return smaller(found.value, count)


@traced
def steps_inside(size: Value, begin: Value, step: Value, count: Value) -> Range:
    """Which of begin, begin + step, ... (count of them) are within [0, size)."""
    return steps(0, begin, step, count), steps(size, begin, step, count)


def corner(r: Any, row: Value) -> tuple[Value, Value]:
    """(plane, row) of x at which the windows of a row of outputs begin, perhaps outside of the image."""
    return divide(row, r.out_h) * r.stride_z - r.pad_z, remainder(row, r.out_h) * r.stride_y - r.pad_y


def taps_inside(r: Any, place: Place, size: int = F32.size) -> tuple[Value, Range, Range]:
    """(address, planes, rows) of a row of outputs, where the window's planes and rows that exist are ranges. size: the
    bytes of an element of x.

    At the address is what the window's first plane and row has in column 0 of x, perhaps outside of the image.
    """
    front, up = corner(r, place.row)
    planes, rows = steps_inside(r.d, front, r.dilation_z, r.k_d), steps_inside(r.h, up, r.dilation_y, r.k_h)
    line = (place.image * r.d + front) * r.h + up
    return r.x + size * (line * (r.w * r.ldx)), planes, rows


def rows_inside(r: Any, place: Place, size: int) -> tuple[Value, Range]:
    """As `taps_inside`, of windows and maps of one plane."""
    up = place.row * r.stride_y - r.pad_y
    rows = steps_inside(r.h, up, r.dilation_y, r.k_h)
    if place.maps:
        return place.maps.x + size * (up * r.w * place.maps.ldx), rows
    return r.x + size * ((place.image * r.h + up) * r.w * r.ldx), rows


def window_rows(
    r: Any, x: Value, planes: Range, rows: Range, weights: Value | None = None
) -> Iterator[tuple[Value, Any]]:
    """The rows of a window that exist: pointers to the first tap of each and, where weights are dense, to its weights.
    x: the pointer to the window's first tap."""
    line = r.w * r.ldx
    for z in over(*planes):
        row = register(x + line * (z * (r.dilation_z * r.h)) + rows[0] * r.dilation_y * line)
        taps = None if weights is None else register(weights + (z * r.k_h + rows[0]) * r.k_w * r.c)
        for _ in over(*rows):
            yield row.value, None if taps is None else taps.value
            row.value = row.value + line * r.dilation_y
            if taps is not None:
                taps.value = taps.value + r.k_w * r.c
