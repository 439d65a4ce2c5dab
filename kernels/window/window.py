"""What depthwise convolution and pooling share: the loop nest over output tiles, addresses, and the epilogue.

A tile is `tile` neighboring outputs of a row by `vectors` vectors of channels, held in registers. One
whose input columns all exist runs without checks; in the others a bit for each column says what to skip, so
that padding costs neither arithmetic nor a copy. Rows outside the image are skipped likewise.

Loads take whole vectors even where fewer channels are left: what follows a tensor or a constant may be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from llvmlite import ir

from ..core.record import Record, loaded, reader
from ..isa.loops import divide, lesser, loop, remainder, room, smaller, thread_range
from ..isa.tiers import Tier
from ..isa.vector import F32, I64, Vector, emits
from ..pointwise.chain import EXTRA, Chain, emit_chain, is_long
from .rows import MAPS, TILED


@dataclass(frozen=True)
class Place:
    """Where a tile is: LLVM int64 values.

    x, y: addresses of its first input element (that of kernel row 0, perhaps outside the image) and first
    output. Kernel row p exists when bit p of `rows` is set. Input column j exists when bit j of `columns`
    is, and `outputs` outputs do; each is None where all do.
    """

    args: Any
    x: Any
    y: Any
    image: Any
    channel: Any
    row: Any = None
    column: Any = None
    rows: Any = None
    columns: Any = None
    outputs: Any = None


def slots(b: Any, args: Any, record: Record, first: int = 0) -> Any:
    """As core.record's `loaded`: a record's slots by name, from inside an `emits` body; nothing writes them."""
    found = loaded(b, args, record, first)
    for load in found:
        constant(b, load)
    return found


def constant(b: Any, load: Any) -> Any:
    """Mark a load as of memory that nothing writes while the kernel runs, so that it may leave loops."""
    load.set_metadata("invariant.load", b.module.add_metadata([]))
    return load


def existing(b: Any, bits: Any, index: Any) -> Any:
    """A context whose code runs if bit `index` (int or int64) of `bits` is set; always when `bits` is None."""
    if bits is None:
        return nullcontext()
    one = I64(1 << index) if isinstance(index, int) else b.shl(I64(1), index)
    return b.if_then(b.icmp_unsigned("!=", b.and_(bits, one), I64(0)))


def spread(b: Any, pointer: Any, stride: Any, count: int, size: int = 4) -> list[Any]:
    """The pointers pointer + j * stride, j < count, to elements of `size` bytes.

    Each is a base plus 1, 2 or 4 times one of few odd multiples, which x86 adds up within a load.
    """
    odd = {m: b.mul(stride, I64(m)) for m in (1, 3, 5, 7) if m < count}
    base, pointers = pointer, []
    for j in range(count):
        if j and j % 8 == 0:
            base = b.gep(base, [b.mul(stride, I64(8))])
        k = j % 8
        scale = k & -k or 1
        wide = b.bitcast(base, ir.IntType(8 * size * scale).as_pointer())
        pointers.append(b.bitcast(b.gep(wide, [odd[k // scale]]), pointer.type) if k else base)
    return pointers


def finisher(tier: Tier, tile: int, vectors: int, chain: Chain, extras: Sequence[str], record: Record) -> Callable:
    """finish(b, place, values, pixel, channels) emits the store of chain(values) at place.y.

    values[t * vectors + i] is vector i of output t, which is pixel `pixel` + t of the image; `channels`
    channels exist from place.channel on. The extras' slots follow the record, as rows.py says.
    """
    dear = is_long(chain)

    def finish(b: Any, place: Place, values: Sequence[Any], pixel: Any, channels: Any) -> None:
        v = Vector(b, tier)
        start, ldy, outputs = v.pointer(place.y), slots(b, place.args, MAPS).ldy, place.outputs

        def operand(e: int, t: Any, i: int) -> Any:
            extra = slots(b, place.args, EXTRA, len(record) + len(EXTRA) * e)
            pointer = v.pointer(extra.address)
            if extras[e] == "scalar":
                return v.broadcast(pointer)
            index = b.add(b.mul(place.image, extra.per_image), place.channel)
            if extras[e] == "full":
                index = b.add(index, b.mul(b.add(pixel, t), extra.per_row))
            return v.load(v.at(v.at(pointer, index), i * v.lanes))

        def put(t: Any, output: Sequence[Any], masks: Sequence[Any]) -> None:
            target = v.at(start, b.mul(ldy, t))
            for i, value in enumerate(output):
                result = emit_chain(v, chain, [value, *(operand(e, t, i) for e in range(len(extras)))])
                v.store(result, v.at(target, i * v.lanes), masks[i])

        def unrolled() -> None:
            for t in range(tile):
                with nullcontext() if outputs is None else b.if_then(b.icmp_signed("<", I64(t), outputs)):
                    put(I64(t), values[t * vectors : (t + 1) * vectors], [None] * vectors)

        def rolled(masks: Sequence[Any]) -> None:
            buffer = b.bitcast(room(b, ir.ArrayType(v.type, tile * vectors)), F32.as_pointer())
            for k, value in enumerate(values):
                v.store(value, v.at(buffer, k * v.lanes))
            with loop(b, 0, tile if outputs is None else outputs, 1) as t:
                kept = v.at(buffer, b.mul(t, I64(vectors * v.lanes)))
                put(t, [v.load(v.at(kept, i * v.lanes)) for i in range(vectors)], masks)

        with b.if_else(b.icmp_signed(">=", channels, I64(vectors * v.lanes))) as (whole, part):
            with whole:
                rolled([None] * vectors) if dear else unrolled()
            with part:
                rolled([v.mask(b.sub(channels, I64(i * v.lanes))) for i in range(vectors)])

    return finish


def nest(
    emit_tile: Callable[[Any, Place], None],
    width: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    tile: int,
    together: int = 1,
    dilations: tuple[int, int] = (1, 1),
) -> Callable:
    """The kernel function that covers y with what `emit_tile(builder, place)` emits.

    A tile is `tile` outputs of a row by `width` channels. After each come those for the next channels, up to
    `together` of them, and only then the next pixels.
    """
    block = together * width
    fields = reader(TILED)
    output_row = _row_of_tiles(emit_tile, width, kernel, strides, dilations, tile, block)

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        blocks = divide(r.c + (block - 1), block)
        bands = divide(r.oh + r.band - 1, r.band)
        units = r.n * bands * blocks
        if units == 0:
            return
        start, stop = thread_range(units, thread, threads)
        channel = remainder(start, blocks) * block
        top = remainder(divide(start, blocks), bands) * r.band
        image = divide(start, blocks * bands)
        for _ in range(start, stop):
            for row in range(top, smaller(top + r.band, r.oh)):
                output_row(args, image, row, channel)
            channel += block
            if channel >= r.c:
                channel = 0
                top += r.band
                if top >= r.oh:
                    top = 0
                    image += 1

    return run


def _row_of_tiles(
    emit_tile: Callable[[Any, Place], None],
    width: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    tile: int,
    block: int,
) -> Any:
    """An intrinsic (args, image, row, channel): one row of outputs, `block` channels from `channel` on."""
    (kh, kw), (sh, sw), (dh, dw) = kernel, strides, dilations
    reach = (kw - 1) * dw + 1
    span = (tile - 1) * sw + reach

    @emits
    def output_row(b: Any, args: Any, image: Any, row: Any, channel: Any) -> None:
        r = slots(b, args, TILED)
        up = b.sub(b.mul(row, I64(sh)), r.pad_top)
        below, above = (b.sdiv(b.add(b.sub(end, up), I64(dh - 1)), I64(dh)) for end in (r.h, I64(0)))
        rows = b.sub(low_bits(b, below, I64(kh)), low_bits(b, above, I64(kh)))
        line = b.sub(b.mul(b.add(b.mul(image, r.h), up), r.w), r.pad_left)
        source = b.add(r.x, b.shl(b.mul(line, r.ldx), I64(2)))
        line = b.mul(b.add(b.mul(image, r.oh), row), r.ow)
        target = b.add(r.y, b.shl(b.mul(line, r.ldy), I64(2)))
        end = lesser(b, b.add(channel, I64(block)), r.c)

        def tiles(place: Place) -> None:
            # A loop that runs once would cost a narrow tile a tenth of its speed.
            with nullcontext(channel) if block == width else loop(b, channel, end, width) as k:
                skip = b.shl(k, I64(2))
                emit_tile(b, replace(place, x=b.add(place.x, skip), y=b.add(place.y, skip), channel=k))

        with loop(b, 0, r.ow, tile) as column:
            xt = b.add(source, b.mul(b.mul(column, I64(sw * 4)), r.ldx))
            yt = b.add(target, b.mul(b.shl(column, I64(2)), r.ldy))
            place = Place(args, xt, yt, image, channel, row, column, rows)
            left = b.sub(b.mul(column, I64(sw)), r.pad_left)
            room, outputs = b.sub(r.w, left), b.sub(r.ow, column)
            inside = b.and_(b.icmp_signed(">=", left, I64(0)), b.icmp_signed(">=", room, I64(span)))
            with b.if_else(b.and_(inside, b.icmp_signed(">=", outputs, I64(tile)))) as (inner, edge):
                with inner:
                    tiles(place)
                with edge:
                    outputs = lesser(b, outputs, I64(tile))
                    used = low_bits(b, b.add(b.mul(outputs, I64(sw)), I64(reach - sw)), I64(span))
                    missing = b.or_(low_bits(b, b.neg(left), I64(span)), b.not_(low_bits(b, room, I64(span))))
                    tiles(replace(place, columns=b.and_(used, b.not_(missing)), outputs=outputs))

    return output_row


def low_bits(b: Any, count: Any, limit: Any) -> Any:
    """An int64 whose lowest `count` bits are set, with count brought into [0, limit]; limit < 64."""
    count = lesser(b, count, limit)
    count = b.select(b.icmp_signed(">", count, I64(0)), count, I64(0))
    return b.sub(b.shl(I64(1), count), I64(1))
