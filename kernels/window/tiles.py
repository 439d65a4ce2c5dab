"""Tiles of outputs for one width of window and one distance of outputs, counted in taps.

Outputs of a tile are as far apart as that takes: those of a window whose taps are not neighbors are not, either.

A tile is some neighboring outputs of a row by some vectors of channels, held in registers. One whose input columns all
exist runs without checks; in the others a bit for each column says what to skip, so that padding costs neither
arithmetic nor a copy. Rows outside the image are skipped likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..core.record import Record
from ..isa.tiers import Tier
from ..lang import F32, Type, Value, divide, either, over, register, smaller, when
from .results import Outputs, finish, walk_row
from .window import Place, f32_at, low_bits, nest, output_at, slots, steps, taps_inside


@dataclass(frozen=True)
class Tile:
    """Where a tile is.

    `x`: a pointer to its first input element (that of row 0 of the window, perhaps outside the image). Rows of the
    window from rows[0] to rows[1] exist, in planes from planes[0] to planes[1] where windows are deep, and input
    column j (the columns are as far apart as taps) when bit j of `columns` is set; all do where it is None. `column`:
    that of its first output; `apart`: from output to output.
    """

    place: Place
    x: Value
    column: Value
    rows: tuple[Value, ...]
    columns: Value | None
    apart: Value
    planes: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Shape:
    """Windows of `size` taps a row whose outputs are `stride` taps apart, in tiles of `tile` outputs by `vectors`
    vectors of channels. deep: whether windows and maps may have several planes.
    """

    size: int
    stride: int
    tile: int
    vectors: int
    deep: bool = False

    @property
    def span(self) -> int:
        """The input columns of a tile."""
        return (self.tile - 1) * self.stride + self.size


def tiles(tier: Tier, record: Record, shape: Shape, sums_of: Callable[[Type, Any, Tile], list[Value]]) -> Callable:
    """The kernel function whose tiles are what `sums_of(f32, slots, tile)` gives: vector i of output t at
    t * vectors + i.
    """
    f32, span, width = F32.vector(tier.lanes), shape.span, shape.vectors * tier.lanes

    def row(place: Place) -> None:
        r = slots(place, record)
        planes: tuple[Value, ...] = ()
        if shape.deep:
            begin, planes, rows = taps_inside(r, place)
        else:
            up = place.row * r.stride_y - r.pad_y
            rows = steps(0, up, r.dilation_y, r.k_h), steps(r.h, up, r.dilation_y, r.k_h)
            begin = r.x + (((place.image * r.h + up) * r.w) * r.ldx << 2)
        apart = divide(r.dilation_x * shape.stride, r.stride_x)
        x = f32_at(begin, -(r.pad_x * r.ldx))
        for first in over(smaller(apart, r.out_w)):
            for column in over(first, r.out_w, apart * shape.tile):
                tiles_at(r, Tile(place, x, column, rows, None, apart, planes))

    def tiles_at(r: Any, where: Tile) -> None:
        """The tiles of all channels at one column."""
        place, start = where.place, where.column * r.stride_x
        left = start - r.pad_x
        last = where.column + where.apart * (shape.tile - 1)
        inside = (left >= 0) & (last < r.out_w)
        inside = inside & (left + r.dilation_x * (span - 1) < r.w)
        columns, count = register(0), register(shape.tile)
        with when(~inside):
            count.value = steps(r.out_w, where.column, where.apart, shape.tile)
            columns.value = existing_columns(r, left, count.value)
        begin = where.x + start * r.ldx
        for channel in over(place.channel, place.end, width):
            here = replace(where, place=replace(place, channel=channel), x=begin + channel)
            with either(inside) as (inner, edge):
                with inner:
                    one_tile(here, None)
                with edge:
                    one_tile(replace(here, columns=columns.value), count.value)

    def existing_columns(r: Any, left: Value, count: Value) -> Value:
        """The bits of the columns that exist, and that outputs which exist want."""
        used = low_bits(count * shape.stride + (shape.size - shape.stride), span)
        found = low_bits(steps(r.w, left, r.dilation_x, span), span)
        missing = low_bits(steps(0, left, r.dilation_x, span), span)
        return used & (found - missing)

    def one_tile(where: Tile, count: Value | None) -> None:
        r = slots(where.place, record)
        sums = sums_of(f32, r, where)
        y, pixel = output_at(r, where.place, where.column)
        finish(f32, record, where.place, Outputs(y, pixel, count, where.apart), sums, shape.vectors)

    return nest(record, row, walk_row)
