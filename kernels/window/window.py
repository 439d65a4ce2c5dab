"""What depthwise convolutions and pools of f32 share: the loops around a row of outputs, edges, addresses, results.

Loads take whole vectors even where fewer channels are left: what follows a tensor or a constant may be read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from ..core.record import Record, fields
from ..lang import (
    F32,
    I64,
    Type,
    Value,
    constant_memory,
    divide,
    integer,
    larger,
    number,
    over,
    pieces,
    register,
    remainder,
    share,
    smaller,
    traced,
    when,
)


@dataclass(frozen=True)
class Place:
    """Where work is. `end` is where its channels, which begin at `channel`, do; `row` counts rows of y in all planes of
    an image.
    """

    args: Value
    image: Value
    row: Value
    channel: Value
    end: Value


def slots(place: Place, record: Record, first: int = 0) -> Any:
    """A record's slots by name; nothing writes them while the kernel runs."""
    return fields(place.args, record, first, constant=True)


def constants(f32: Type, pointer: Value, count: int) -> list[Value]:
    """Some vectors of constants, one after the other."""
    return [constant_memory(f32[pointer + i * f32.lanes]) for i in range(count)]


def existing(bits: Value | None, index: int) -> AbstractContextManager[Any]:
    """A context whose code runs if bit `index` of `bits` is set; always when `bits` is None."""
    return nullcontext() if bits is None else when((bits & (1 << index)) != 0)


def spread(pointer: Value, stride: Value, count: int) -> list[Value]:
    """The pointers pointer + j * stride, j < count.

    Each is a base plus 1, 2 or 4 times one of few odd multiples, which x86 adds up within a load.
    """
    item = pointer.type.target
    assert item is not None
    odd = {m: stride * m for m in (1, 3, 5, 7) if m < count}
    base, pointers = pointer, []
    for j in range(count):
        if j and j % 8 == 0:
            base = base + stride * 8
        k = j % 8
        scale = k & -k or 1
        wide = base.bits(integer(item.bits * scale))
        pointers.append((wide + odd[k // scale]).bits(item) if k else base)
    return pointers


def nest(record: Record, emit_row: Callable[[Place], None], end_row: Callable[[Record, Place], None]) -> Callable:
    """The kernel function that covers y with what `emit_row(place)` writes: a row of outputs by channels; then comes
    `end_row(record, place)`.

    A thread takes bands of rows by blocks of channels, as the record says.
    """

    @traced
    def body(args: Value, thread: Value, threads: Value) -> None:
        r = fields(args, record, constant=True)
        rows = r.out_d * r.out_h
        blocks, bands = pieces(r.c, r.block), pieces(rows, r.band)
        start, stop = share(r.n * bands * blocks, thread, threads)
        for unit in over(start, stop):
            line, block = divide(unit, blocks), remainder(unit, blocks)
            image, top = divide(line, bands), remainder(line, bands) * r.band
            channel = block * r.block
            end = smaller(channel + r.block, r.c)
            for row in over(top, smaller(top + r.band, rows)):
                place = Place(args, image, row, channel, end)
                emit_row(place)
                end_row(record, place)

    def run(args, thread, threads):
        body(args, thread, threads)

    return run


def low_bits(count: Value, limit: Any) -> Value:
    """An int64 whose lowest `count` bits are set, with count brought into [0, limit]; limit < 64."""
    return (I64(1) << brought(count, limit)) - 1


def brought(x: Value, limit: Any) -> Value:
    """x brought into [0, limit]."""
    return larger(smaller(x, limit), 0)


@traced
def steps(end: Any, begin: Any, step: Value, count: Any) -> Value:
    """How many of begin, begin + step, ... (count of them) are below `end`."""
    room = larger(number(end) - begin, 0)
    found = register(room)
    with when(step != 1):
        found.value = pieces(room, step)
    return smaller(found.value, count)


def corner(r: Any, place: Place) -> tuple[Value, Value]:
    """The plane and the row of x at which the windows of a row of outputs begin, perhaps outside of the image."""
    front = divide(place.row, r.out_h) * r.stride_z - r.pad_z
    return front, remainder(place.row, r.out_h) * r.stride_y - r.pad_y


def taps_inside(r: Any, place: Place) -> tuple[Value, tuple[Value, ...], tuple[Value, ...]]:
    """(address, planes, rows) of a row of outputs, where the window's planes and rows that exist are ranges.

    At the address is what the window's first plane and row has in column 0 of x, perhaps outside of the image.
    """
    front, up = corner(r, place)
    planes = tuple(steps(end, front, r.dilation_z, r.k_d) for end in (0, r.d))
    rows = tuple(steps(end, up, r.dilation_y, r.k_h) for end in (0, r.h))
    line = (place.image * r.d + front) * r.h + up
    return r.x + (line * (r.w * r.ldx) << 2), planes, rows


def output_at(r: Any, place: Place, column: Value) -> tuple[Value, Value]:
    """(address, pixel) of an output of the place's row: pixels are counted within the image."""
    pixel = place.row * r.out_w + column
    in_batch = place.image * (r.out_d * r.out_h) * r.out_w + pixel
    return r.y + (in_batch * r.ldy + place.channel << 2), pixel


def f32_at(address: Value, elements: Value) -> Value:
    """The pointer to f32 that are so many behind an address."""
    return F32.at(address) + elements
