"""Tiles of outputs, for a width of the window and an output stride counted in taps.

The outputs of a tile are spaced so that their windows share columns of x; where taps are not neighbors (dilation),
neither are these outputs.

A tile is some outputs of a row by some vectors of channels, held in registers. A tile whose input columns all exist
runs without checks; in the others a bit for each column says which to skip, so that padding costs neither arithmetic
nor a copy. Rows outside the image are skipped likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..core.record import Record
from ..gemm.tile import LINE
from ..lang import F32, Type, Value, choose, divide, either, outlined, over, prefetch, register, room, smaller, when
from .results import finish, outputs_at, walk_row
from .window import Place, Range, low_bits, rows_inside, slots, steps, taps_inside, vectors_of


@dataclass(frozen=True)
class Tile:
    """Where a tile is: int64 values.

    `x`: a pointer to its first input element (that of row 0 of the window, perhaps outside the image). Rows of the
    window from rows[0] to rows[1] exist, in planes from planes[0] to planes[1] where windows are deep, and input
    column j (the columns are as far apart as taps) when bit j of `columns` is set; all do where it is None. `column`:
    that of its first output; `spacing`: columns from output to output; `high`: how many of the window's rows count,
    None where that is not `counted`; `factors`: where those of its outputs are, if they differ.
    """

    place: Place
    x: Value
    column: Value
    rows: Range
    columns: Value | None
    spacing: Value
    planes: Range | None = None
    high: Value | None = None
    factors: Value | None = None

    def ldx(self, r: Any) -> Value:
        """Elements from pixel to pixel of x."""
        return self.place.maps.ldx if self.place.maps else r.ldx


class Shape(NamedTuple):
    """`tile` outputs by `vectors` of channels. Windows have `size` columns, and outputs are `stride` taps apart."""

    size: int
    stride: int
    tile: int
    vectors: int = 1

    @property
    def span(self) -> int:
        """Columns of x that a tile reads."""
        return (self.tile - 1) * self.stride + self.size


def tiles(
    record: Record,
    kind: Type,
    shape: Shape,
    sums_of: Callable[[Any, Tile], list[Value]],
    counted: Callable[[Any, Place, Range, Range], Value | None] | None = None,
    factors: Callable[[Any, Tile], list[Value]] | None = None,
) -> Callable[[Place], None]:
    """A function that computes a row of outputs in tiles. `sums_of(slots, tile)` gives vectors of type `kind`: that of
    output t and vector i at t * vectors + i. counted: where windows and maps may have several planes, `high` of the
    tiles of a row, from (slots, place, planes, rows); factors: where these are counted, those of a tile that lacks
    columns, from (slots, tile)."""
    item, all_channels = kind.number.size, _all_channels(record, kind, shape, sums_of, factors)

    def row_of_outputs(place: Place) -> None:
        r = slots(place.args, record)
        planes, high = None, None
        if counted:
            begin, planes, rows = taps_inside(r, place, item)
            high = counted(r, place, planes, rows)
        else:
            begin, rows = rows_inside(r, place, item)
        spacing = divide(r.dilation_x * shape.stride, r.stride_x)
        before = -(r.pad_x * (place.maps.ldx if place.maps else r.ldx))
        x = kind.number.at(begin) + before
        left, right = place.columns
        for first in over(left, smaller(left + spacing, right)):
            for column in over(first, right, spacing * shape.tile):
                all_channels(r, Tile(place, x, column, rows, None, spacing, planes, high))
        walk_row(record, place)

    return row_of_outputs


def _all_channels(
    record: Record,
    kind: Type,
    shape: Shape,
    sums_of: Callable[[Any, Tile], list[Value]],
    factors: Callable[[Any, Tile], list[Value]] | None,
) -> Callable[[Any, Tile], None]:
    """all_channels(slots, tile): compute the tiles of all channels at one column."""
    _, _, tile, vectors = shape
    fetch = _make_fetch(record, kind, shape)

    def all_channels(r: Any, where: Tile) -> None:
        place, start = where.place, where.column * r.stride_x
        left = start - r.pad_x
        last, right = where.column + where.spacing * (tile - 1), place.columns[1]
        inside = (left >= 0) & (last < right) & (left + r.dilation_x * (shape.span - 1) < r.w)
        columns, count = register(0), register(tile)
        kept = F32.at(room(F32, tile).address) if factors and where.high is not None else None
        with when(~inside):
            count.value = steps(right, where.column, where.spacing, tile)
            columns.value = _existing_columns(r, left, count.value, shape)
            if factors and kept is not None:
                for t, factor in enumerate(factors(r, replace(where, columns=columns.value))):
                    kept[t] = factor
        begin = where.x + start * where.ldx(r)
        if "fetch" in record:
            with when(r.fetch != 0):
                fetch(r, place, begin, where.column)
        for channel in vectors_of(r, place, kind, vectors):
            here = replace(where, place=replace(place, channel=channel), x=begin + channel)
            with either(inside) as (inner, edge):
                with inner:
                    one_tile(here, None)
                with edge:
                    one_tile(replace(here, columns=columns.value, factors=kept), count.value)

    def one_tile(where: Tile, count: Value | None) -> None:
        r = slots(where.place.args, record)
        sums = sums_of(r, where)
        out = outputs_at(r, where.place, where.column, count, where.spacing, _y_item(r, kind))
        finish(record, where.place, out, sums, vectors, kind.number)

    return all_channels


def _make_fetch(record: Record, kind: Type, shape: Shape) -> Callable[[Any, Place, Value, Value], None]:
    """fetch(slots, place, x, column): ask for the columns of x below those that the windows of the tile at a column of
    outputs read, from the pointer x on, and for the outputs below its own.
    """
    item = kind.number.size

    def ask(args: Value, x: Value, y: Value, channels: Value) -> None:
        r = slots(args, record)
        y_item, step = _y_item(r, kind), item * (r.ldx * r.dilation_x)
        y_step = y_item * (r.ldy * divide(r.dilation_x * shape.stride, r.stride_x))
        for row in over(choose(r.copied == 0, r.stride_y, 0) if "copied" in record else r.stride_y):
            below = x + item * (r.w * r.ldx) * ((r.k_h - 1) * r.dilation_y + 1 + row)
            _fetch(below, step, shape.tile * shape.stride, item * channels)
        _fetch(y, y_step, shape.tile, y_item * channels)

    def fetch(r: Any, place: Place, x: Value, column: Value) -> None:
        first = (x + place.channel).address
        y = outputs_at(r, place, column + r.out_w, size=_y_item(r, kind)).y
        outlined(None, None, ask, place.args, first, y, place.end - place.channel)

    return fetch


def _y_item(r: Any, kind: Type) -> Any:
    """Bytes of an element of y."""
    return getattr(r, "y_item", kind.number.size)


def _fetch(at: Value, step: Value, count: int, size: Value) -> None:
    """Prefetch `size` bytes at each of `count` places `step` bytes apart."""
    for line in over(0, size, LINE):
        for i in range(count):
            prefetch(at + line + step * i)


def _existing_columns(r: Any, left: Value, count: Value, shape: Shape) -> Value:
    """A bit for each column of x that exists and is read by outputs that exist."""
    span = shape.span
    used = low_bits(count * shape.stride + (shape.size - shape.stride), span)
    found, missing = (low_bits(steps(end, left, r.dilation_x, span), span) for end in (r.w, 0))
    return used & (found - missing)
