"""Where the windows' results go: through the epilogue of the record, or as bytes, into y."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.record import Record
from ..gemm.requantize import byte_rounder, word
from ..gemm.rows import STORES
from ..isa.integer import in_order
from ..isa.stores import store_some
from ..lang import F32, I64, Type, Value, either, opaque, over, room, smaller, tier, when
from ..pointwise.epilogue import Area, Lines, added, addend_at, shaped, walk_from
from ..pointwise.rows import EPILOGUE
from .window import Place, slots


@dataclass(frozen=True)
class Outputs:
    """Neighboring outputs of a row: int64 values.

    `y`: the address of the first, which is pixel `pixel` of its image; `count` of them exist, all where it is None;
    the next is `apart` pixels further on, one where it is None.
    """

    y: Value
    pixel: Value
    count: Value | None = None
    apart: Value | None = None


def outputs_at(
    r: Any, place: Place, column: Value, count: Value | None = None, apart: Value | None = None, size: int = F32.size
) -> Outputs:
    """The outputs of a row from a column on, at the place's channel; size: the bytes of an element."""
    pixel = place.row * r.out_w + column
    in_batch = place.image * (r.out_d * r.out_h) * r.out_w + pixel
    return Outputs(r.y + size * (in_batch * r.ldy + place.channel), pixel, count, apart)


def _epilogue(args: Value, record: Record) -> Any:
    """The slots of EPILOGUE, with which the record ends."""
    return slots(args, EPILOGUE, len(record) - len(EPILOGUE))


def finish(record: Record, place: Place, out: Outputs, values: Sequence[Value], vectors: int = 1) -> None:
    """The epilogue of some outputs; values[t * vectors + i] is vector i of output t. A chain is walked later: see
    `walk_row`.

    Channels at and behind place.end are not stored.
    """
    f32, tile = values[0].type, len(values) // vectors
    # Read here and now: what waited in registers would be in the way of sums.
    e = _epilogue(opaque(place.args), record)
    apart = 1 if out.apart is None else out.apart
    ldy = 4 * (slots(place.args, record).ldy * apart)
    channels = place.end - place.channel
    count = I64(tile) if out.count is None else out.count

    def addend(k: int) -> Value:
        t = I64(k // vectors) if out.count is None else smaller(I64(k // vectors), opaque(count - 1))
        first = addend_at(e, place.image, out.pixel, place.channel)
        return f32[first + t * apart * e.addend_row + k % vectors * f32.lanes]

    results = shaped(e, added(e, values, addend), long="weights" in record)

    def store(masks: Sequence[Value | None]) -> None:
        for t in range(tile):
            with when(None if out.count is None else I64(t) < count):
                y = F32.at(out.y + ldy * t)
                for i, mask in enumerate(masks):
                    f32[y + i * f32.lanes, mask] = results[t * vectors + i]

    masked(f32, channels, vectors, store)


def finish_rows(record: Record, place: Place, out: Outputs, sums: Value) -> None:
    """As `finish`, of a vector of each output at the address `sums`, one after the other; out.count is not None."""
    f32 = F32.vector(tier().lanes)
    e = _epilogue(place.args, record)
    ldy = 4 * slots(place.args, record).ldy
    columns = smaller(place.end - place.channel, f32.lanes)

    def store(masks: Sequence[Value | None]) -> None:
        for t in over(out.count):
            value = f32[sums + t * f32.size]
            at = addend_at(e, place.image, out.pixel + t, place.channel)

            def addend(_: int, at: Value = at) -> Value:
                return f32[at]

            (result,) = shaped(e, added(e, [value], addend))
            f32[out.y + t * ldy, masks[0]] = result

    masked(f32, columns, 1, store)


def store_sums(record: Record, kind: str, place: Place, out: Outputs, sums: Sequence[Value]) -> None:
    """Store sums (int32), a vector of each output, as the layer says; kind: one of gemm's STORES. out.count is not
    None.
    """
    r, i32 = slots(place.args, record), sums[0].type
    kept = room(i32, len(sums))
    for i, total in enumerate(sums):
        kept[i] = total
    rounded, factor = byte_rounder(r), F32.like(i32)[r.multipliers + 4 * place.channel]

    for t in over(out.count):
        total = kept[t]
        real = total.to(F32) * factor
        result = word(total, real, r) if kind == "words" else in_order(rounded([real]), 1)
        store_some(result, out.y + t * (STORES[kind] * r.ldy), place.end - place.channel)


def walk_row(record: Record, place: Place) -> None:
    """Walk the chain, where there is one, over a row of outputs by channels, whose sums lie where results do."""
    r, e = slots(place.args, record), _epilogue(place.args, record)
    pixel, ldy = place.row * r.out_w, 4 * r.ldy
    y = r.y + (place.image * (r.out_d * r.out_h * r.out_w) + pixel) * ldy + 4 * place.channel
    area = Area(place.image, pixel, place.channel, r.out_w, place.end - place.channel)
    walk_from(e, area, Lines(y, ldy), Lines(y, ldy))


def masked(f32: Type, channels: Value, vectors: int, store: Callable[[Sequence[Value | None]], None]) -> None:
    """`store(masks)`, a mask for each vector, as a tier does that best; None where all lanes count."""
    masks = [f32.below(channels - i * f32.lanes) for i in range(vectors)]
    if tier().masks:
        store(masks)
        return
    with either(channels >= vectors * f32.lanes) as (whole, part):
        with whole:
            store([None] * vectors)
        with part:
            store(masks)
