"""Where the windows' results go: through the epilogue of the record into y."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from ..core.record import Record
from ..isa.functions import clip
from ..isa.loops import lesser, loop
from ..isa.vector import I64, Vector
from ..pointwise.epilogue import added, addend_at, bounds, buffer, is_walked, target, walk, walk_from
from ..pointwise.rows import EPILOGUE
from .window import Place, opaque, slots

ROOM = 4096
"""f32 of a row that wait for the walk of a chain."""


@dataclass(frozen=True)
class Outputs:
    """Neighboring outputs of a row: LLVM int64 values.

    `y`: the address of the first, which is pixel `pixel` of its image; `count` of them exist, all where it is None.
    `sums`: (address, bytes from output to output) of where sums go that a chain is walked over.
    """

    y: Any
    pixel: Any
    count: Any = None
    sums: tuple[Any, Any] = (None, None)


def row_of_outputs(b: Any, record: Record, place: Place, tile: int, emit: Callable[[Any, Any, Callable], None]) -> None:
    """Emit a row of outputs by the channels of a place, `emit(first, end, outputs)` for parts of it.

    `outputs(place, column, count)`: where those from a column and a place's channel on go. What a chain is walked over
    is walked part by part, in the first cache.
    """
    r, e = slots(b, place.args, record), slots(b, place.args, EPILOGUE, len(record) - len(EPILOGUE))
    sums, row, ldy = buffer(b, 4 * ROOM), b.shl(r.block, I64(2)), b.shl(r.ldy, I64(2))
    some = b.mul(b.udiv(b.udiv(I64(ROOM), r.block), I64(tile)), I64(tile))
    image = b.mul(place.image, b.mul(b.mul(r.od, r.oh), r.ow))
    with loop(b, 0, r.ow, b.select(is_walked(b, e), some, r.ow)) as first:
        end = lesser(b, b.add(first, some), r.ow)
        end = b.select(is_walked(b, e), end, r.ow)

        def outputs(here: Place, column: Any, count: Any) -> Outputs:
            pixel = b.add(b.mul(place.row, r.ow), column)
            y = b.add(r.y, b.add(b.mul(b.add(image, pixel), ldy), b.shl(here.channel, I64(2))))
            skipped = b.mul(b.sub(column, first), row)
            kept = b.add(b.add(sums, skipped), b.shl(b.sub(here.channel, place.channel), I64(2)))
            return Outputs(y, pixel, count, (kept, row))

        emit(first, end, outputs)
        out = outputs(place, first, None)
        columns = b.sub(place.end, place.channel)
        walk_from(b, e, place.image, out.pixel, place.channel, b.sub(end, first), columns, sums, row, out.y, ldy)


def finish(v: Vector, record: Record, place: Place, out: Outputs, values: Sequence[Any], vectors: int = 1) -> None:
    """Emit the epilogue of some outputs of `row_of_outputs`; values[t * vectors + i] is vector i of output t.

    The record ends with EPILOGUE. Channels at and behind place.end are not stored.
    """
    b, tile = v.b, len(values) // vectors
    e = slots(b, place.args, EPILOGUE, len(record) - len(EPILOGUE))
    ldy = b.shl(slots(b, place.args, record).ldy, I64(2))
    to, row = target(b, e, out.y, ldy, *out.sums)

    def addend(k: int) -> Any:
        t = I64(k // vectors)
        if out.count is not None:
            t = lesser(b, t, opaque(b, b.sub(out.count, I64(1))))
        first = addend_at(v, e, place.image, out.pixel, place.channel)
        return v.load(v.at(v.at(first, b.mul(t, e.addend_row)), k % vectors * v.lanes))

    # Without a branch: nearly all windows of networks have bounds, and these stay in registers.
    results = [clip(v, x, *bounds(v, e)) for x in added(v, e, values, addend)]

    def store(masks: Sequence[Any]) -> None:
        for t in range(tile):
            with nullcontext() if out.count is None else b.if_then(b.icmp_signed("<", I64(t), out.count)):
                first = v.pointer(b.add(to, b.mul(row, I64(t))))
                for i, mask in enumerate(masks):
                    v.store(results[t * vectors + i], v.at(first, i * v.lanes), mask)

    masked(v, b.sub(place.end, place.channel), vectors, store)


def finish_rows(v: Vector, record: Record, place: Place, out: Outputs, sums: Any) -> None:
    """As `finish`, of a vector of each output at the address `sums`, one after the other; out.count is not None."""
    b, width = v.b, 4 * v.lanes
    e = slots(b, place.args, EPILOGUE, len(record) - len(EPILOGUE))
    ldy = b.shl(slots(b, place.args, record).ldy, I64(2))
    columns = lesser(b, b.sub(place.end, place.channel), I64(v.lanes))

    def store(masks: Sequence[Any]) -> None:
        with loop(b, 0, out.count, 1) as t:
            value = v.load(v.pointer(b.add(sums, b.mul(t, I64(width)))))
            at = addend_at(v, e, place.image, b.add(out.pixel, t), place.channel)
            result = clip(v, added(v, e, [value], lambda _: v.load(at))[0], *bounds(v, e))
            v.store(result, v.pointer(b.add(out.y, b.mul(t, ldy))), masks[0])

    with b.if_else(is_walked(b, e), likely=False) as (walked, plain):
        with walked:
            walk(b, e, place.image, out.pixel, place.channel, out.count, columns, sums, I64(width), out.y, ldy)
        with plain:
            masked(v, columns, 1, store)


def masked(v: Vector, channels: Any, vectors: int, store: Any) -> None:
    """Emit store(masks), a mask for each vector, as a tier does that best; None where all lanes count."""
    masks = [v.mask(v.b.sub(channels, I64(i * v.lanes))) for i in range(vectors)]
    if v.lanes == 16:
        store(masks)
        return
    with v.b.if_else(v.b.icmp_signed(">=", channels, I64(vectors * v.lanes))) as (whole, part):
        with whole:
            store([None] * vectors)
        with part:
            store(masks)
