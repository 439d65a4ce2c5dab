"""Depthwise convolution and pooling, window, strides and dilations at run time, in up to three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from ..core.record import reader
from ..isa.loops import divide, loop, remainder, smaller, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import I32, I64, Vector, emits
from ..pointwise.chain import Chain
from .pool import finished, joined, start
from .rows import ANY, DEPTHWISE_ANY, POOL_ANY
from .window import Place, finisher, slots

TILE = 6
"""Neighboring outputs computed together where no window touches the border."""


def make_depthwise_any(tier: Tier, multiplier: int = 1, chain: Chain = (), extras: Sequence[str] = ()) -> Callable:
    """As make_depthwise, for any window. Output channel o reads input channel o // multiplier."""

    def maker(tile: int) -> Any:
        finish = finisher(tier, tile, 1, chain, extras, DEPTHWISE_ANY)

        @emits
        def outputs_of_row(
            b: Any,
            args: Any,
            x: Any,
            y: Any,
            image: Any,
            pixel: Any,
            channel: Any,
            channels: Any,
            z0: Any,
            z1: Any,
            p0: Any,
            p1: Any,
            q0: Any,
            q1: Any,
            count: Any,
        ) -> None:
            v = Vector(b, tier)
            r = slots(b, args, DEPTHWISE_ANY)
            weights, bias = (v.at(v.pointer(address), channel) for address in (r.weights, r.bias))
            sums = [variable(b, v.load(bias)) for _ in range(tile)]

            def tap(z: Any, p: Any, q: Any, places: Sequence[Any]) -> None:
                index = b.add(b.mul(b.add(b.mul(z, r.kh), p), r.kw), q)
                weight = v.load(v.at(weights, b.mul(index, r.c)))
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
        finish = finisher(tier, tile, 1, chain, extras, POOL_ANY)

        @emits
        def outputs_of_row(
            b: Any,
            args: Any,
            x: Any,
            y: Any,
            image: Any,
            pixel: Any,
            channel: Any,
            channels: Any,
            z0: Any,
            z1: Any,
            p0: Any,
            p1: Any,
            q0: Any,
            q1: Any,
            count: Any,
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
    r = slots(b, args, ANY)
    z0, z1, p0, p1, q0, q1 = ranges
    steps = [b.mul(b.mul(r.ldx, r.sw), I64(t)) for t in range(tile)]
    with loop(b, z0, z1, 1) as z, loop(b, p0, p1, 1) as p, loop(b, q0, q1, 1) as q:
        line = b.add(b.mul(b.mul(z, r.dd), r.h), b.mul(p, r.dh))
        place = v.at(v.pointer(x), b.mul(b.add(b.mul(line, r.w), b.mul(q, r.dw)), r.ldx))
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
    lanes, fields, padded = tier.lanes, reader(ANY), reader(POOL_ANY)
    # A block of channels is part of what one input channel makes, or all that several make.
    together = max(1, lanes // multiplier)
    parts = -(-multiplier // lanes)
    width = together * multiplier

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        end_z, end_y, end_x = r.d, r.h, r.w
        if include_pad:
            p = padded(args)
            end_z, end_y, end_x = r.d + p.pad_back, r.h + p.pad_bottom, r.w + p.pad_right
        blocks = divide(r.c + width - 1, width) * parts
        units = r.n * r.od * r.oh * blocks
        inner_end = r.w - (r.kw - 1) * r.dw + r.pad_left - (TILE - 1) * r.sw
        lower, upper = thread_range(units, thread, threads)
        for unit in range(lower, upper):
            block, line = remainder(unit, blocks), divide(unit, blocks)
            first = divide(block, parts)
            channel = first * width + remainder(block, parts) * lanes
            channels = smaller(smaller(lanes, (first + 1) * width - channel), r.c - channel)
            image, z = divide(line, r.od * r.oh), remainder(divide(line, r.oh), r.od)
            row = remainder(line, r.oh)
            front, up = z * r.sd - r.pad_front, row * r.sh - r.pad_top
            z0, z1 = steps_to(0, front, r.dd, r.kd), steps_to(r.d, front, r.dd, r.kd)
            p0, p1 = steps_to(0, up, r.dh, r.kh), steps_to(r.h, up, r.dh, r.kh)
            high = (z1 - z0) * (p1 - p0)
            if include_pad:
                high = steps_to(end_z, front, r.dd, r.kd) * steps_to(end_y, up, r.dh, r.kh)
            source = r.x + (((image * r.d + front) * r.h + up) * r.w * r.ldx + first * together) * 4
            pixel = (z * r.oh + row) * r.ow
            target = r.y + ((image * r.od * r.oh * r.ow + pixel) * r.ldy + channel) * 4
            column = 0
            while column < r.ow:
                begin = column * r.sw
                left = begin - r.pad_left
                xt, yt = source + left * r.ldx * 4, target + column * r.ldy * 4
                if r.pad_left <= begin < inner_end and column + TILE <= r.ow:
                    inner(args, xt, yt, image, pixel + column, channel, channels, z0, z1, p0, p1, 0, r.kw, high * r.kw)
                    column += TILE
                else:
                    q0, q1 = steps_to(0, left, r.dw, r.kw), steps_to(r.w, left, r.dw, r.kw)
                    wide = steps_to(end_x, left, r.dw, r.kw) if include_pad else q1 - q0
                    edge(args, xt, yt, image, pixel + column, channel, channels, z0, z1, p0, p1, q0, q1, high * wide)
                    column += 1

    return run


@emits
def steps_to(b: Any, end: Any, begin: Any, step: Any, count: Any) -> Any:
    """How many of begin, begin + step, ... (count of them) are below `end`."""
    room = b.sub(end, begin)
    room = b.select(b.icmp_signed(">", room, I64(0)), room, I64(0))
    found = b.udiv(b.sub(b.add(room, step), I64(1)), step)
    return b.select(b.icmp_signed("<", found, count), found, count)
