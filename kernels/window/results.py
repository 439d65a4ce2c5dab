"""Where the windows' results go: through the epilogue of the record, or as bytes, into y."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..core.record import Record
from ..gemm.requantize import byte_rounder, word
from ..isa.integer import in_order
from ..isa.stores import store_some
from ..lang import BF16, F32, I64, U8, Type, Value, either, intrinsic, masked, opaque, over, room, smaller, when
from ..pointwise.epilogue import Area, Lines, added, addend_at, shaped, walk_from
from ..pointwise.rows import EPILOGUE
from .window import Place, slots


@dataclass(frozen=True)
class Outputs:
    """Neighboring outputs of a row, as int64 values. `y`: the address of the first, which is pixel `pixel` of its
    image; `count`: how many exist (None: all); `spacing`: pixels from one to the next (None: 1)."""

    y: Value
    pixel: Value
    count: Value | None = None
    spacing: Value | None = None


def outputs_at(
    r: Any, place: Place, column: Value, count: Value | None = None, spacing: Value | None = None, size: Any = F32.size
) -> Outputs:
    """The outputs of a row from a column on, at the place's channel; size: the bytes of an element."""
    pixel = place.row * r.out_w + column
    in_batch = place.image * (r.out_d * r.out_h) * r.out_w + pixel
    return Outputs(r.y + size * (in_batch * r.ldy + place.channel), pixel, count, spacing)


def _epilogue(args: Value, record: Record) -> Any:
    """The slots of EPILOGUE, with which the record ends."""
    return slots(args, EPILOGUE, len(record) - len(EPILOGUE))


def finish(
    record: Record, place: Place, out: Outputs, values: Sequence[Value], vectors: int = 1, number: Type = F32
) -> None:
    """The epilogue of some outputs; values[t * vectors + i] is vector i of output t. A chain is walked later: see
    `walk_row`.

    Channels at and behind place.end are not stored. Integers have no epilogue, but bytes are held within bounds.
    number: what reals are stored as, where the record's `y_item` does not say F32.
    """
    f32, tile = values[0].type, len(values) // vectors
    count = I64(tile) if out.count is None else out.count
    if not f32.number.real:
        finish_rows(record, place, replace(out, count=count), f32, _kept(values))
        return
    # Read here and now: what waited in registers would be in the way of sums.
    e = _epilogue(opaque(place.args), record)
    spacing = 1 if out.spacing is None else out.spacing
    r = slots(place.args, record)
    ldy = (r.y_item if "y_item" in record else number.size) * (r.ldy * spacing)
    channels = place.end - place.channel

    def addend(k: int) -> Value:
        t = I64(k // vectors) if out.count is None else smaller(I64(k // vectors), opaque(count - 1))
        first = addend_at(e, place.image, out.pixel, place.channel)
        return f32[first + t * spacing * e.addend_row + k % vectors * f32.lanes]

    results = shaped(e, added(e, values, addend), long="weights" in record, approximate=number is BF16)

    def store(stored: Type, masks: Sequence[Value | None]) -> None:
        for t in range(tile):
            with when(None if out.count is None else I64(t) < count):
                y = stored.at(out.y + ldy * t)
                for i, mask in enumerate(masks):
                    stored.like(f32)[y + i * f32.lanes, mask] = results[t * vectors + i].to(stored)

    if number is F32 or "y_item" not in record:
        masked(f32, channels, vectors, partial(store, number))
        return
    with either(r.y_item == F32.size) as (wide, narrow):
        with wide:
            masked(f32, channels, vectors, partial(store, F32))
        with narrow:
            masked(f32, channels, vectors, partial(store, number))


def finish_rows(record: Record, place: Place, out: Outputs, f32: Type, rows: Value) -> None:
    """As `finish`, of a vector of each output at the address `rows`, one after the other; out.count is not None."""
    if not f32.number.real:
        _finish_integers(record, place, out, f32, rows)
        return
    e = _epilogue(place.args, record)
    ldy = 4 * slots(place.args, record).ldy
    columns = smaller(place.end - place.channel, f32.lanes)

    def store(masks: Sequence[Value | None]) -> None:
        for t in over(out.count):
            value = f32[rows + t * f32.size]
            at = addend_at(e, place.image, out.pixel + t, place.channel)

            def addend(_: int, at: Value = at) -> Value:
                return f32[at]

            (result,) = shaped(e, added(e, [value], addend))
            f32[out.y + t * ldy, masks[0]] = result

    masked(f32, columns, 1, store)


def _finish_integers(record: Record, place: Place, out: Outputs, kind: Type, rows: Value) -> None:
    r = slots(place.args, record)
    if kind.number is not U8:
        _store_rows(r, place, out, kind.at(rows), lambda x: x)
        return
    low, high = (kind(bound.to(U8)) for bound in (r.low, r.high))
    _store_rows(r, place, out, kind.at(rows), lambda x: intrinsic("umin", intrinsic("umax", x, low), high))


def finish_sums(record: Record, place: Place, out: Outputs, sums: Sequence[Value], stored: str) -> None:
    """Store sums (int32), a vector of each output, as the layer says; stored: one of gemm's STORES."""
    r = slots(place.args, record)
    rounded, factor = byte_rounder(r, within=False), F32.like(sums[0].type)[r.multipliers + 4 * place.channel]

    def result(total: Value) -> Value:
        real = total.to(F32) * factor
        return word(total, real, r) if stored == "words" else in_order(rounded([real]), 1)

    _store_rows(r, place, out, sums[0].type.at(_kept(sums)), result)


def _kept(values: Sequence[Value]) -> Value:
    """The address at which vectors lie one after the other."""
    rows = room(values[0].type, len(values))
    for t, value in enumerate(values):
        rows[t] = value
    return rows.address


def _store_rows(r: Any, place: Place, out: Outputs, rows: Value, result: Callable[[Value], Value]) -> None:
    """Store the result of each output, whose vectors lie one after the other from the pointer `rows` on, as far as
    there are channels.
    """
    ldy = r.ldy if out.spacing is None else r.ldy * out.spacing
    for t in over(out.count):
        found = result(rows[t])
        store_some(found, out.y + t * (ldy * found.type.number.size), r.c - place.channel)


def walk_row(record: Record, place: Place) -> None:
    """Walk the chain, where there is one, over the columns of a row of outputs by channels, whose sums lie where
    results do."""
    if "walk" not in record:
        return
    r, e = slots(place.args, record), _epilogue(place.args, record)
    left, right = place.columns
    pixel, ldy = place.row * r.out_w + left, 4 * r.ldy
    y = r.y + (place.image * (r.out_d * r.out_h * r.out_w) + pixel) * ldy + 4 * place.channel
    area = Area(place.image, pixel, place.channel, right - left, place.end - place.channel)
    walk_from(e, area, Lines(y, ldy), Lines(y, ldy))
