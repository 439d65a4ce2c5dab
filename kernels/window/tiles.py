"""Tiles of outputs for one size of window and one stride.

A tile is some neighboring outputs of a row by some vectors of channels, held in registers. One whose input columns all
exist runs without checks; in the others a bit for each column says what to skip, so that padding costs neither
arithmetic nor a copy. Rows outside the image are skipped likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..core.record import Record
from ..isa.loops import lesser, loop
from ..isa.tiers import Tier
from ..isa.vector import I64, Vector
from .results import Outputs, finish, walk_row
from .window import Place, low_bits, nest, slots


@dataclass(frozen=True)
class Tile:
    """Where a tile is: LLVM int64 values.

    `x`: a pointer to its first input element (that of row 0 of the window, perhaps outside the image). Row p of the
    window exists when bit p of `rows` is set; input column j when bit j of `columns` is, all do where it is None.
    `column`: that of its first output.
    """

    place: Place
    x: Any
    column: Any
    rows: Any
    columns: Any


def tiles(
    tier: Tier,
    record: Record,
    size: int,
    stride: int,
    tile: int,
    vectors: int,
    emit_sums: Callable[[Vector, Any, Tile], list[Any]],
) -> Callable:
    """The kernel function whose tiles are what `emit_sums(v, slots, tile)` gives: vector i of output t at
    t * vectors + i.
    """
    span, width = (tile - 1) * stride + size, vectors * tier.lanes

    def emit_row(b: Any, place: Place) -> None:
        r = slots(b, place.args, record)
        up = b.sub(b.mul(place.row, I64(stride)), r.pad_top)
        rows = b.sub(*(low_bits(b, b.sub(end, up), I64(size)) for end in (r.h, I64(0))))
        source = b.mul(b.sub(b.mul(b.add(b.mul(place.image, r.h), up), r.w), r.pad_left), r.ldx)
        with loop(b, 0, r.ow, tile) as column:
            left = b.sub(b.mul(column, I64(stride)), r.pad_left)
            room, rest = b.sub(r.w, left), b.sub(r.ow, column)
            inside = b.and_(b.icmp_signed(">=", left, I64(0)), b.icmp_signed(">=", room, I64(span)))
            inside = b.and_(inside, b.icmp_signed(">=", rest, I64(tile)))
            begin = _pointer(b, tier, r.x, b.add(source, b.mul(b.mul(column, I64(stride)), r.ldx)))
            with loop(b, place.channel, place.end, width) as channel:
                here = replace(place, channel=channel)
                x = b.gep(begin, [channel])
                with b.if_else(inside) as (inner, edge):
                    with inner:
                        emit_tile(b, Tile(here, x, column, rows, None))
                    with edge:
                        emit_tile(b, Tile(here, x, column, rows, existing_columns(b, r, left, column)))

    def existing_columns(b: Any, r: Any, left: Any, column: Any) -> Any:
        """The bits of the columns that exist, and that outputs which exist want."""
        count = lesser(b, b.sub(r.ow, column), I64(tile))
        used = low_bits(b, b.add(b.mul(count, I64(stride)), I64(size - stride)), I64(span))
        missing = b.or_(low_bits(b, b.neg(left), I64(span)), b.not_(low_bits(b, b.sub(r.w, left), I64(span))))
        return b.and_(used, b.not_(missing))

    def emit_tile(b: Any, where: Tile) -> None:
        v, place = Vector(b, tier), where.place
        r = slots(b, place.args, record)
        sums = emit_sums(v, r, where)
        pixel = b.add(b.mul(place.row, r.ow), where.column)
        in_batch = b.add(b.mul(b.mul(place.image, r.oh), r.ow), pixel)
        y = b.add(r.y, b.shl(b.add(b.mul(in_batch, r.ldy), place.channel), I64(2)))
        count = None if where.columns is None else lesser(b, b.sub(r.ow, where.column), I64(tile))
        finish(v, record, place, Outputs(y, pixel, count), sums, vectors)

    return nest(record, emit_row, walk_row)


def _pointer(b: Any, tier: Tier, address: Any, elements: Any) -> Any:
    """The pointer to f32 that are `elements` behind an address."""
    v = Vector(b, tier)
    return v.at(v.pointer(address), elements)
