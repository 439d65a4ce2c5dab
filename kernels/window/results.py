"""Where the windows' results go: through the epilogue of the record into y."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from ..core.record import Record
from ..isa.loops import lesser, loop
from ..isa.vector import I64, Vector
from ..lang.both import both
from ..pointwise.epilogue import added, addend_at, shaped, walk_from
from ..pointwise.rows import EPILOGUE
from .window import Place, opaque, slots


@dataclass(frozen=True)
class Outputs:
    """Neighboring outputs of a row: LLVM int64 values.

    `y`: the address of the first, which is pixel `pixel` of its image; `count` of them exist, all where it is None;
    the next is `apart` pixels further on, one where it is None.
    """

    y: Any
    pixel: Any
    count: Any = None
    apart: Any = None


@both
def finish(v: Vector, record: Record, place: Place, out: Outputs, values: Sequence[Any], vectors: int = 1) -> None:
    """Emit the epilogue of some outputs; values[t * vectors + i] is vector i of output t. A chain is walked later: see
    `walk_row`.

    The record ends with EPILOGUE. Channels at and behind place.end are not stored.
    """
    b, tile = v.b, len(values) // vectors
    # Read here and now: what waited in registers would be in the way of sums.
    e = slots(b, opaque(b, place.args), EPILOGUE, len(record) - len(EPILOGUE))
    apart = I64(1) if out.apart is None else out.apart
    ldy = b.shl(b.mul(slots(b, place.args, record).ldy, apart), I64(2))
    channels = b.sub(place.end, place.channel)
    count = I64(tile) if out.count is None else out.count

    def addend(k: int) -> Any:
        t = I64(k // vectors) if out.count is None else lesser(b, I64(k // vectors), opaque(b, b.sub(count, I64(1))))
        first = addend_at(v, e, place.image, out.pixel, place.channel)
        return v.load(v.at(v.at(first, b.mul(b.mul(t, apart), e.addend_row)), k % vectors * v.lanes))

    results = shaped(v, e, added(v, e, values, addend), long="weights" in record)

    def store(masks: Sequence[Any]) -> None:
        for t in range(tile):
            with nullcontext() if out.count is None else b.if_then(b.icmp_signed("<", I64(t), count)):
                first = v.pointer(b.add(out.y, b.mul(ldy, I64(t))))
                for i, mask in enumerate(masks):
                    v.store(results[t * vectors + i], v.at(first, i * v.lanes), mask)

    masked(v, channels, vectors, store)


@both
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
            (result,) = shaped(v, e, added(v, e, [value], lambda _: v.load(at)))
            v.store(result, v.pointer(b.add(out.y, b.mul(t, ldy))), masks[0])

    masked(v, columns, 1, store)


@both
def walk_row(b: Any, record: Record, place: Place) -> None:
    """Walk the chain, where there is one, over a row of outputs by channels, whose sums lie where results do."""
    r, e = slots(b, place.args, record), slots(b, place.args, EPILOGUE, len(record) - len(EPILOGUE))
    pixel, ldy = b.mul(place.row, r.ow), b.shl(r.ldy, I64(2))
    in_batch = b.add(b.mul(place.image, b.mul(b.mul(r.od, r.oh), r.ow)), pixel)
    y = b.add(b.add(r.y, b.mul(in_batch, ldy)), b.shl(place.channel, I64(2)))
    walk_from(b, e, place.image, pixel, place.channel, r.ow, b.sub(place.end, place.channel), y, ldy, y, ldy)


@both
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
