"""What depthwise convolution and pooling share: the loop nest over output tiles, addresses, and the epilogue.

A tile is `tile` neighbouring outputs of a row by `vectors` vectors of channels, held in registers. A tile all of whose
input columns exist runs without checks; in the others one bit per column says what to skip, so padding costs neither
arithmetic nor a copy. Rows outside the image are skipped likewise.

Loads take whole vectors even where fewer channels are left: what follows a tensor or a constant may be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .chain import Chain, chain_cost, emit_chain
from .isa.loops import divide, loop, remainder, smaller
from .isa.tiers import Tier
from .isa.vector import F32, I64, Vector, arg, emits
from .rows_window import HEAD

CHANNELS, OUT_W = HEAD.index("c"), HEAD.index("ow")
INLINE_COST = 8
"""Dearer chains loop over a tile's outputs instead of being unrolled over them."""


def field(b: Any, args: Any, index: int) -> Any:
    """The index-th int64 of the record at `args`, from inside an `emits` body."""
    return constant(b, b.load(b.gep(b.inttoptr(args, I64.as_pointer()), [I64(index)])))


def constant(b: Any, load: Any) -> Any:
    """Mark a load as of memory that nothing writes while the kernel runs, so that it may leave loops."""
    load.set_metadata("invariant.load", b.module.add_metadata([]))
    return load


def bit(b: Any, bits: Any, index: Any) -> Any:
    """Whether bit `index` (int or int64) of an int64 is set."""
    one = I64(1 << index) if isinstance(index, int) else b.shl(I64(1), index)
    return b.icmp_unsigned("!=", b.and_(bits, one), I64(0))


def spread(b: Any, pointer: Any, stride: Any, count: int) -> list[Any]:
    """f32 pointers pointer + j * stride, j < count, as base + odd multiple * 1, 2 or 4: x86 adds these up in a load."""
    odd = {m: b.mul(stride, I64(m)) for m in (1, 3, 5, 7) if m < count}
    base, pointers = pointer, []
    for j in range(count):
        if j and j % 8 == 0:
            base = b.gep(base, [b.mul(stride, I64(8))])
        k = j % 8
        scale = k & -k or 1
        wide = b.bitcast(base, ir.IntType(32 * scale).as_pointer())
        pointers.append(b.bitcast(b.gep(wide, [odd[k // scale]]), pointer.type) if k else base)
    return pointers


def finisher(tier: Tier, tile: int, vectors: int, chain: Chain, extras: Sequence[str], slot: int) -> Callable:
    """finish(b, args, values, y, image, pixel, channel, channels, outputs) emits the store of chain(values) at y.

    values[t * vectors + i] is vector i of output t, all from `channel` on, `channels` of them; only `outputs` outputs
    exist, or all when it is None. Extra e has (address, stride per image, stride per pixel), in f32, at args[slot + 3 * e].
    Unlike x and the weights, an extra "full" operand may be y itself.
    """
    dear = chain_cost(chain) > INLINE_COST

    def finish(b: Any, args: Any, values: Sequence[Any], y: Any, image: Any, pixel: Any, channel: Any, channels: Any,
               outputs: Any = None) -> None:
        v = Vector(b, tier)
        start, ldy = v.pointer(y), field(b, args, HEAD.index("ldy"))

        def operand(e: int, t: Any, i: int) -> Any:
            address, per_image, per_pixel = (field(b, args, slot + 3 * e + k) for k in range(3))
            pointer = v.pointer(address)
            if extras[e] == "scalar":
                return v.broadcast(pointer)
            index = b.add(b.mul(image, per_image), channel)
            if extras[e] == "full":
                index = b.add(index, b.mul(b.add(pixel, t), per_pixel))
            return v.load(v.at(v.at(pointer, index), i * v.lanes))

        def put(t: Any, output: Sequence[Any], masks: Sequence[Any]) -> None:
            place = v.at(start, b.mul(ldy, t))
            for i, value in enumerate(output):
                result = emit_chain(v, chain, [value, *(operand(e, t, i) for e in range(len(extras)))])
                v.store(result, v.at(place, i * v.lanes), masks[i])

        def unrolled() -> None:
            for t in range(tile):
                with b.if_then(b.icmp_signed("<", I64(t), I64(tile) if outputs is None else outputs)):
                    put(I64(t), values[t * vectors : (t + 1) * vectors], [None] * vectors)

        def rolled(masks: Sequence[Any]) -> None:
            buffer = b.bitcast(cgutils.alloca_once(b, ir.ArrayType(v.type, tile * vectors)), F32.as_pointer())
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


@emits(returns=types.int64)
def ones(b: Any, count: Any, limit: Any) -> Any:
    """An int64 whose lowest `count` bits are set, with count brought into [0, limit]; limit < 64."""
    return low_bits(b, count, limit)


def low_bits(b: Any, count: Any, limit: Any) -> Any:
    """`ones` from inside an `emits` body."""
    count = b.select(b.icmp_signed("<", count, limit), count, limit)
    count = b.select(b.icmp_signed(">", count, I64(0)), count, I64(0))
    return b.sub(b.shl(I64(1), count), I64(1))


def nest(inner: Any, edge: Any, width: int, kernel: tuple[int, int], strides: tuple[int, int], tile: int) -> Callable:
    """The kernel function that covers the output with tiles of `tile` outputs of a row by `width` channels.

    `inner` and `edge` are intrinsics of (args, x, y, image, row, column, channel, rows, columns, outputs): x and y
    address the tile's first input element (that of kernel row 0, perhaps outside the image) and first output;
    kernel row p exists when bit p of `rows` is set, input column j when bit j of `columns` is; `outputs` outputs
    exist. In an `inner` tile all columns and outputs do.
    """
    kh, kw = kernel
    sh, sw = strides
    span = (tile - 1) * sw + kw

    def run(args: int, thread: int, threads: int) -> None:
        x, ldx, y, ldy = arg(args, 0), arg(args, 1) * 4, arg(args, 2), arg(args, 3) * 4
        n, h, w, c = arg(args, 4), arg(args, 5), arg(args, 6), arg(args, 7)
        oh, ow, pad_top, pad_left, band = arg(args, 8), arg(args, 9), arg(args, 10), arg(args, 11), arg(args, 12)
        inner_end = smaller(w + pad_left - span, (ow - tile) * sw)
        blocks = divide(c + width - 1, width)
        bands = divide(oh + band - 1, band)
        units = n * bands * blocks
        start = divide(units * thread, threads)
        channel = remainder(start, blocks) * width
        top = remainder(divide(start, blocks), bands) * band
        image = divide(start, blocks * bands)
        for _ in range(start, divide(units * (thread + 1), threads)):
            for row in range(top, smaller(top + band, oh)):
                up = row * sh - pad_top
                rows = ones(h - up, kh) - ones(-up, kh)
                source = x + ((image * h + up) * w - pad_left) * ldx + channel * 4
                target = y + (image * oh + row) * ow * ldy + channel * 4
                for column in range(0, ow, tile):
                    begin = column * sw
                    xt, yt = source + begin * ldx, target + column * ldy
                    if pad_left <= begin <= inner_end:
                        inner(args, xt, yt, image, row, column, channel, rows, 0, tile)
                    else:
                        left = begin - pad_left
                        outputs = smaller(tile, ow - column)
                        wanted = ones(smaller(w - left, (outputs - 1) * sw + kw), span)
                        columns = wanted - (wanted & ones(-left, span))
                        edge(args, xt, yt, image, row, column, channel, rows, columns, outputs)
            channel += width
            if channel >= c:
                channel = 0
                top += band
                if top >= oh:
                    top = 0
                    image += 1

    return run
