"""A band: rows of a convolution's input, copied into scratch with their padding; and who computes which bands.

`r` is a record with slots called as those of `rows.CONV`. Copies are whole vectors in ascending order: each may run
into the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..lang import I32, I64, Type, Value, either, number, over, registers, repeat, share, tier, traced, when
from ..lang.instructions import below, choose, div_rem, divide, remainder

FEW = I32.vector(4)
"""The type by which runs of at most its size are copied, as those of a group of few channels."""


def rows_of_band(r: Any, to: Value, source: Value, z: Value, y: Value, rows: Value) -> Iterator[tuple[Value, ...]]:
    """`for line, plane, iy, inside in rows_of_band(...)`: where each of `rows` rows from (z, y) of the input on goes in
    each slice of a band at `to`, its slice of the input and its number there, and whether there is such a row.
    """
    tiles = hasattr(r, "lacking")
    for k in over(r.k_d):
        iz = z + k * r.dilation_z
        plane = source + iz * r.x_z
        inside = below(iz, r.d)
        into = to + k * r.band_z
        top = y if tiles else y + k * r.shift
        for i in over(rows):
            iy = top + i * (I64(1) if tiles else r.step_y)
            line = into + i * r.band_y
            yield line, plane, iy, inside & below(iy, r.h)


@traced
def fill_band(r: Any, item: int, to: Value, source: Value, z: Value, y: Value, rows: Value) -> None:
    """Copy `rows` rows, from (z, y) of the input on, to each slice of a band at `to`.

    `source`: address of the image's and group's input; an element has `item` bytes. For Winograd's tiles, whose record
    has `lacking`, all rows are copied, with zeros around them; the last row of a slice of x lacks so many.
    """
    fill, lacking = (I64(0), r.lacking) if hasattr(r, "lacking") else (r.fill, I64(0))
    word = I32.vector(tier().lanes)(fill.to(I32))
    for line, plane, iy, inside in rows_of_band(r, to, source, z, y, rows):
        with either(inside) as (there, padding):
            with there:
                _row(r, item, word, line, (plane, iy), lacking)
            with padding:
                fill_words(line, word, r.band_y)


def _row(r: Any, item: int, word: Value, to: Value, source: tuple[Value, Value], lacking: Value) -> None:
    """Copy the input's row `source`, (address of the slice, number in it), between words of padding. lacking: elements
    that the input's last row, which is one run, lacks.
    """
    plane, iy = source
    run = fill_words(to, word, r.left * item)
    short = choose(iy == r.h - 1, lacking, 0)
    count = r.run - short
    first = plane + iy * r.x_y + r.x_first
    with either(r.run * item <= FEW.size) as (few, many):
        with few:
            for j in over(r.pixels):
                FEW[run + j * r.pixel_step] = FEW[first + j * r.x_step]
        with many:
            for j in over(r.pixels):
                _copy(word.type, run + j * r.pixel_step, first + j * r.x_step, count * item)
    behind = run + r.pixels * r.pixel_step
    fill_words(behind - short * item, word, (r.right + short) * item)


def fill_words(to: Value, word: Value, nbytes: Value) -> Value:
    """Fill bytes with a vector; the address behind them."""

    def body(_: Value, state: Sequence[Value]) -> list[Value]:
        word.type[state[0]] = word
        return [state[0] + word.type.size]

    _vectors(word.type.size, nbytes, [to], body)
    return to + nbytes


def _copy(kind: Type, to: Value, source: Value, nbytes: Value) -> None:
    """Copy bytes in vectors of a type."""

    def body(_: Value, state: Sequence[Value]) -> list[Value]:
        kind[state[0]] = kind[state[1]]
        return [address + kind.size for address in state]

    _vectors(kind.size, nbytes, [to, source], body)


def _vectors(size: int, nbytes: Value, state: Sequence[Value], body: Callable[..., list[Value]]) -> None:
    vectors = (nbytes + (size - 1)) >> (size.bit_length() - 1)
    with when(vectors > 0):
        repeat(vectors, state, body, once=True)


@traced
def deal(r: Any, panels: Any, units: Any, thread: Any, threads: Any) -> tuple[Any, ...]:
    """A thread's share (first panel, end, first unit, end): its cell of a grid with r.column_parts parts of the panels,
    those of a row beside one another; of units only, where threads are no multiple of them.
    """
    bounds = registers([number(x) for x in (0, panels, 0, units)])
    with when(threads > 1):
        parts = choose(remainder(threads, r.column_parts) == 0, r.column_parts, 1)
        row, column = div_rem(thread, parts)
        p0, p1 = share(panels, column, parts)
        u0, u1 = share(units, row, divide(threads, parts))
        bounds[0], bounds[1], bounds[2] = p0, p1, u0
        bounds[3] = choose(p0 < p1, u1, u0)
    return tuple(bounds.values())


def band_at(r: Any, unit: Any, bands: Any) -> tuple[Any, ...]:
    """Image, group and slice of the result of a band by its number, and its number in the slice, which has `bands`."""
    above = divide(unit, bands)
    upper = divide(above, r.out_d)
    image = divide(upper, r.sets)
    return image, upper - image * r.sets, above - upper * r.out_d, unit - above * bands
