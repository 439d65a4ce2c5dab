"""A band: rows of a convolution's input, copied into scratch with their padding; and who computes which bands.

`r` is a record whose slots are called as those of `rows.CONV`. Copies are whole vectors in ascending order: each may
run into the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types

from ..isa.loops import repeat, thread_range
from ..isa.tiers import Tier
from ..isa.vector import I32, I64, Vector, emits


@njit(inline="always")
def deal(r, panels, units, thread, threads):  # type: ignore[no-untyped-def]
    """(first panel, end, first unit, end) of a thread, which has a part of the panels, or of the units."""
    p0, p1 = 0, panels
    first, end = thread_range(units, thread, threads)
    if r.by_columns:
        p0, p1 = thread_range(panels, thread, threads)
        first, end = 0, units
    if p0 == p1:
        end = first
    return p0, p1, first, end


def make_band(tier: Tier, item: int) -> Any:
    """band(r, to, source, z, y, rows): for each slice of the kernel `rows` rows, those from row y of slice z on.

    `source` is where the input of the image and group begins; elements have `item` bytes.
    """
    row = make_row(tier, item)

    @njit(inline="always")
    def band(r, to, source, z, y, rows):  # type: ignore[no-untyped-def]
        for k in range(r.k_d):
            iz = z + k * r.dilation_z
            for i in range(rows):
                iy = y + i * r.step_y
                inside = iz >= 0 and iz < r.d and iy >= 0 and iy < r.h
                row(r, to + k * r.band_z + i * r.band_y, source + iz * r.x_z + iy * r.x_y, inside, r.fill)

    return band


def make_row(tier: Tier, item: int) -> Any:
    """row(r, to, source, inside, fill): a row of a band at `to` from the input's row at `source`.

    Padding repeats the word `fill`; where not `inside`, all is padding.
    """
    copy, clear = _copy(tier, item), _clear(tier, item)

    @njit(inline="always")
    def row(r, to, source, inside, fill):  # type: ignore[no-untyped-def]
        if inside:
            source += r.x_first
            to = clear(to, fill, r.left)
            for _ in range(r.pixels):
                copy(to, source, r.run)
                to += r.pixel_step
                source += r.x_step
            clear(to, fill, r.right)
        else:
            clear(to, fill, r.band_y // item)

    return row


def _copy(tier: Tier, item: int) -> Any:
    """An intrinsic copy(to, source, count) -> to + item * count."""

    @emits(returns=types.int64)
    def copy(b: Any, to: Any, source: Any, count: Any) -> Any:
        v = Vector(b, tier)
        return _vectors(v, to, b.mul(count, I64(item)), source, lambda at: v.load(v.pointer(at), align=1))

    return copy


def _clear(tier: Tier, item: int) -> Any:
    """An intrinsic clear(to, word, count) that writes the low 4 bytes of `word` over and over instead."""

    @emits(returns=types.int64)
    def clear(b: Any, to: Any, word: Any, count: Any) -> Any:
        v = Vector(b, tier)
        value = v.b.bitcast(v.splat(b.trunc(word, I32)), v.type)
        return _vectors(v, to, b.mul(count, I64(item)), to, lambda at: value)

    return clear


def _vectors(v: Vector, to: Any, nbytes: Any, source: Any, value: Callable[[Any], Any]) -> Any:
    b = v.b
    size = v.lanes * 4

    def body(_: Any, state: list[Any]) -> list[Any]:
        target, start = state
        v.store(value(start), v.pointer(target), align=1)
        return [b.add(target, I64(size)), b.add(start, I64(size))]

    vectors = b.ashr(b.add(nbytes, I64(size - 1)), I64(size.bit_length() - 1))
    with b.if_then(b.icmp_signed(">", vectors, I64(0))):
        repeat(b, vectors, [to, source], body)
    return b.add(to, nbytes)
