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
from ..isa.loops import lesser, loop, variable
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector
from .results import Outputs, finish, walk_row
from .window import Place, low_bits, nest, slots, steps, taps_inside


@dataclass(frozen=True)
class Tile:
    """Where a tile is: LLVM int64 values.

    `x`: a pointer to its first input element (that of row 0 of the window, perhaps outside the image). Rows of the
    window from rows[0] to rows[1] exist, in planes from planes[0] to planes[1] where windows are deep, and input
    column j (the columns are as far apart as taps) when bit j of `columns` is set; all do where it is None. `column`:
    that of its first output; `apart`: from output to output.
    """

    place: Place
    x: Any
    column: Any
    rows: tuple[Any, Any]
    columns: Any
    apart: Any
    planes: tuple[Any, Any] | None = None


def tiles(
    tier: Tier,
    record: Record,
    size: int,
    stride: int,
    tile: int,
    vectors: int,
    emit_sums: Callable[[Vector, Any, Tile], list[Any]],
    deep: bool = False,
) -> Callable:
    """The kernel function whose tiles are what `emit_sums(v, slots, tile)` gives: vector i of output t at
    t * vectors + i. deep: whether windows and maps may have several planes.
    """
    span, width = (tile - 1) * stride + size, vectors * tier.lanes

    def emit_row(b: Any, place: Place) -> None:
        r = slots(b, place.args, record)
        planes: tuple[Any, Any] | None = None
        if deep:
            begin, planes, rows = taps_inside(b, r, place)
        else:
            up = b.sub(b.mul(place.row, r.sh), r.pad_top)
            rows = (steps(b, I64(0), up, r.dh, r.kh), steps(b, r.h, up, r.dh, r.kh))
            begin = b.add(r.x, b.shl(b.mul(b.mul(b.add(b.mul(place.image, r.h), up), r.w), r.ldx), I64(2)))
        apart = b.udiv(b.mul(r.dw, I64(stride)), r.sw)
        x = _pointer(b, tier, begin, b.neg(b.mul(r.pad_left, r.ldx)))
        with loop(b, 0, lesser(b, apart, r.ow), 1) as first, loop(b, first, r.ow, b.mul(apart, I64(tile))) as column:
            emit_column(b, r, place, Tile(place, x, column, rows, None, apart, planes))

    def emit_column(b: Any, r: Any, place: Place, where: Tile) -> None:
        """The tiles of all channels at one column."""
        start = b.mul(where.column, r.sw)
        left = b.sub(start, r.pad_left)
        last = b.add(where.column, b.mul(where.apart, I64(tile - 1)))
        inside = b.and_(b.icmp_signed(">=", left, I64(0)), b.icmp_signed("<", last, r.ow))
        inside = b.and_(inside, b.icmp_signed("<", b.add(left, b.mul(r.dw, I64(span - 1))), r.w))
        columns, count = variable(b, I64(0)), variable(b, I64(tile))
        with b.if_then(b.not_(inside)):
            b.store(steps(b, r.ow, where.column, where.apart, I64(tile)), count)
            b.store(existing_columns(b, r, left, b.load(count)), columns)
        begin = b.gep(where.x, [b.mul(start, r.ldx)])
        with loop(b, place.channel, place.end, width) as channel:
            here = replace(where, place=replace(place, channel=channel), x=b.gep(begin, [channel]))
            with b.if_else(inside) as (inner, edge):
                with inner:
                    emit_tile(b, here, None)
                with edge:
                    emit_tile(b, replace(here, columns=b.load(columns)), b.load(count))

    def existing_columns(b: Any, r: Any, left: Any, count: Any) -> Any:
        """The bits of the columns that exist, and that outputs which exist want."""
        used = low_bits(b, b.add(b.mul(count, I64(stride)), I64(size - stride)), I64(span))
        found = low_bits(b, steps(b, r.w, left, r.dw, I64(span)), I64(span))
        missing = low_bits(b, steps(b, I64(0), left, r.dw, I64(span)), I64(span))
        return b.and_(used, b.sub(found, missing))

    def emit_tile(b: Any, where: Tile, count: Any) -> None:
        v, place = Vector(b, tier), where.place
        r = slots(b, place.args, record)
        sums = emit_sums(v, r, where)
        pixel = b.add(b.mul(place.row, r.ow), where.column)
        in_batch = b.add(b.mul(b.mul(place.image, b.mul(r.od, r.oh)), r.ow), pixel)
        y = b.add(r.y, b.shl(b.add(b.mul(in_batch, r.ldy), place.channel), I64(2)))
        finish(v, record, place, Outputs(y, pixel, count, where.apart), sums, vectors)

    return nest(record, emit_row, walk_row)


def _pointer(b: Any, tier: Tier, address: Any, elements: Any) -> Any:
    """The pointer to f32 that are `elements` behind an address."""
    v = Vector(b, tier)
    return v.at(v.pointer(address), elements)
