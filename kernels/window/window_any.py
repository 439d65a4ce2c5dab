"""Depthwise convolution and pooling, window, strides and dilations at run time, in up to three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types

from ..gemm.tile import make_fields
from ..isa.loops import divide, loop, remainder, smaller, variable
from ..isa.tiers import Tier
from ..isa.vector import I32, I64, Vector, arg, emits
from ..pointwise.chain import Chain
from .pool import finished, joined, start
from .rows import ANY_HEAD, DEPTHWISE, POOL_ANY
from .window import Place, field, finisher

TILE = 6
"""Neighbouring outputs computed together where no window touches the border."""


def make_depthwise_any(tier: Tier, multiplier: int = 1, chain: Chain = (), extras: Sequence[str] = ()) -> Callable:
    """As make_depthwise, for any window. Output channel o reads input channel o // multiplier."""
    slot = len(ANY_HEAD)

    def maker(tile: int) -> Any:
        finish = finisher(tier, tile, 1, chain, extras, slot + len(DEPTHWISE))

        @emits
        def outputs_of_row(
            b: Any, args: Any, x: Any, y: Any, image: Any, pixel: Any, channel: Any, channels: Any,
            z0: Any, z1: Any, p0: Any, p1: Any, q0: Any, q1: Any, count: Any,
        ) -> None:
            v = Vector(b, tier)
            c, kh, kw = (field(b, args, ANY_HEAD.index(name)) for name in ("c", "kh", "kw"))
            weights, bias = (v.at(v.pointer(field(b, args, slot + i)), channel) for i in range(2))
            sums = [variable(b, v.load(bias)) for _ in range(tile)]

            def tap(z: Any, p: Any, q: Any, places: Sequence[Any]) -> None:
                index = b.add(b.mul(b.add(b.mul(z, kh), p), kw), q)
                weight = v.load(v.at(weights, b.mul(index, c)))
                for total, place in zip(sums, places, strict=True):
                    b.store(v.fma(_repeated(v, multiplier, place), weight, b.load(total)), total)

            _taps(v, args, x, tile, (z0, z1, p0, p1, q0, q1), tap)
            place = Place(args, x, y, image, channel)
            finish(b, place, [b.load(total) for total in sums], pixel, channels)

        return outputs_of_row

    return _nest_any(tier, maker(TILE), maker(1), multiplier)


def make_pool_any(
    tier: Tier, op: str, include_pad: bool = False, chain: Chain = (), extras: Sequence[str] = ()
) -> Callable:
    """As make_pool, for any window."""

    def maker(tile: int) -> Any:
        finish = finisher(tier, tile, 1, chain, extras, len(ANY_HEAD) + len(POOL_ANY))

        @emits
        def outputs_of_row(
            b: Any, args: Any, x: Any, y: Any, image: Any, pixel: Any, channel: Any, channels: Any,
            z0: Any, z1: Any, p0: Any, p1: Any, q0: Any, q1: Any, count: Any,
        ) -> None:
            v = Vector(b, tier)
            totals = [variable(b, start(v, op)) for _ in range(tile)]

            def tap(z: Any, p: Any, q: Any, places: Sequence[Any]) -> None:
                for total, place in zip(totals, places, strict=True):
                    b.store(joined(v, op, b.load(total), v.load(place)), total)

            _taps(v, args, x, tile, (z0, z1, p0, p1, q0, q1), tap)
            results = [finished(v, op, b.load(total), count) for total in totals]
            finish(b, Place(args, x, y, image, channel), results, pixel, channels)

        return outputs_of_row

    return _nest_any(tier, maker(TILE), maker(1), 1, include_pad)


def _taps(v: Vector, args: Any, x: Any, tile: int, ranges: Sequence[Any], tap: Callable[..., None]) -> None:
    """Emit tap(z, p, q, places) for all taps in the ranges; places are where the tile's outputs read."""
    b = v.b
    names = ("h", "w", "ldx", "dd", "dh", "dw", "sw")
    h, w, ldx, dd, dh, dw, sw = (field(b, args, ANY_HEAD.index(name)) for name in names)
    z0, z1, p0, p1, q0, q1 = ranges
    steps = [b.mul(b.mul(ldx, sw), I64(t)) for t in range(tile)]
    with loop(b, z0, z1, 1) as z, loop(b, p0, p1, 1) as p, loop(b, q0, q1, 1) as q:
        line = b.add(b.mul(b.mul(z, dd), h), b.mul(p, dh))
        place = v.at(v.pointer(x), b.mul(b.add(b.mul(line, w), b.mul(q, dw)), ldx))
        tap(z, p, q, [v.at(place, step) for step in steps])


def _repeated(v: Vector, multiplier: int, place: Any) -> Any:
    """A vector of f32 from `place` on, each `multiplier` times."""
    if multiplier == 1:
        return v.load(place)
    if multiplier > v.lanes:
        return v.broadcast(place)
    x = v.load(place)
    lanes = ir.Constant(ir.VectorType(I32, v.lanes), [i // multiplier for i in range(v.lanes)])
    return v.b.shuffle_vector(x, ir.Constant(v.type, ir.Undefined), lanes)


def _nest_any(tier: Tier, inner: Any, edge: Any, multiplier: int, include_pad: bool = False) -> Callable:
    """The kernel function: `inner` computes TILE outputs none of whose windows leave a row, `edge` one."""
    lanes, head = tier.lanes, make_fields(len(ANY_HEAD))
    # A block of channels is part of what one input channel makes, or all that several make.
    together = max(1, lanes // multiplier)
    parts = -(-multiplier // lanes)
    width = together * multiplier

    def run(args: int, thread: int, threads: int) -> None:
        x, ldx, y, ldy, n, d, h, w, c, od, oh, ow, kd, kh, kw, sd, sh, sw, dd, dh, dw, pad_z, pad_y, pad_x = head(args)
        end_z, end_y, end_x = d, h, w
        if include_pad:
            end_z, end_y, end_x = d + arg(args, 24), h + arg(args, 25), w + arg(args, 26)
        blocks = divide(c + width - 1, width) * parts
        units = n * od * oh * blocks
        inner_end = w - (kw - 1) * dw + pad_x - (TILE - 1) * sw
        for unit in range(divide(units * thread, threads), divide(units * (thread + 1), threads)):
            block, line = remainder(unit, blocks), divide(unit, blocks)
            first = divide(block, parts)
            channel = first * width + remainder(block, parts) * lanes
            channels = smaller(smaller(lanes, (first + 1) * width - channel), c - channel)
            image, z = divide(line, od * oh), remainder(divide(line, oh), od)
            row = remainder(line, oh)
            front, up = z * sd - pad_z, row * sh - pad_y
            z0, z1 = steps_to(0, front, dd, kd), steps_to(d, front, dd, kd)
            p0, p1 = steps_to(0, up, dh, kh), steps_to(h, up, dh, kh)
            high = (z1 - z0) * (p1 - p0)
            if include_pad:
                high = steps_to(end_z, front, dd, kd) * steps_to(end_y, up, dh, kh)
            source = x + (((image * d + front) * h + up) * w * ldx + first * together) * 4
            pixel = (z * oh + row) * ow
            target = y + ((image * od * oh * ow + pixel) * ldy + channel) * 4
            column = 0
            while column < ow:
                begin = column * sw
                left = begin - pad_x
                xt, yt = source + left * ldx * 4, target + column * ldy * 4
                if pad_x <= begin < inner_end and column + TILE <= ow:
                    inner(args, xt, yt, image, pixel + column, channel, channels,
                          z0, z1, p0, p1, 0, kw, high * kw)
                    column += TILE
                else:
                    q0, q1 = steps_to(0, left, dw, kw), steps_to(w, left, dw, kw)
                    wide = steps_to(end_x, left, dw, kw) if include_pad else q1 - q0
                    edge(args, xt, yt, image, pixel + column, channel, channels,
                         z0, z1, p0, p1, q0, q1, high * wide)
                    column += 1

    return run


@emits(returns=types.int64)
def steps_to(b: Any, end: Any, begin: Any, step: Any, count: Any) -> Any:
    """How many of begin, begin + step, ... (count of them) are below `end`."""
    room = b.sub(end, begin)
    room = b.select(b.icmp_signed(">", room, I64(0)), room, I64(0))
    found = b.udiv(b.sub(b.add(room, step), I64(1)), step)
    return b.select(b.icmp_signed("<", found, count), found, count)
