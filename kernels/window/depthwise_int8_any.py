"""Depthwise convolution of bytes for any window of two dimensions and any number of outputs per channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import fields, reader
from ..gemm.requantize import byte_rounder, word
from ..gemm.rows import STORES
from ..isa.integer import in_order
from ..isa.tiers import Tier
from ..lang import (
    F32,
    I32,
    U8,
    Value,
    choose,
    divide,
    either,
    indices,
    over,
    register,
    remainder,
    room,
    share,
    traced,
)
from .rows import DEPTHWISE_INT8_ANY
from .window import steps


def make_depthwise_any(tier: Tier, out: str) -> Callable:
    """y[n, i, j, c] of the x[n, i stride_y + p dilation_y - pad_y, j stride_x + q dilation_x - pad_x, c // multiplier]
    in the image.

    out: one of gemm's STORES, of which i32 isn't made.
    """
    size = STORES[out]
    read, lanes, size = reader(DEPTHWISE_INT8_ANY), tier.lanes, STORES[out]
    f32, i32 = F32.vector(lanes), I32.vector(lanes)

    @traced
    def output(args: Value, x: Value, y: Value, channel: Any, rows: Any, columns: Any) -> None:
        r = fields(args, DEPTHWISE_INT8_ANY, constant=True)
        bias = r.packed + (channel << 2)
        total = register(i32[bias])
        zero = i32(r.zero_x.to(I32))
        source, first = x + divide(channel, r.multiplier), remainder(channel, r.multiplier)
        alone = r.multiplier == 1
        shares = _shares(first, r.multiplier, lanes)
        inputs = divide(first + (lanes - 1), r.multiplier) + 1

        def repeated(place: Value) -> Value:
            found = register(i32(0))
            for i in over(inputs):
                one = i32(U8[place + i].to(I32))
                found.value = choose(shares == i.to(I32), one, found.value)
            return found.value

        held = register(i32(0))
        for p in over(*rows):
            for q in over(*columns):
                place = source + (p * r.dilation_y * r.w + q * r.dilation_x) * r.ldx
                with either(alone, likely=True) as (each, several):
                    with each:
                        held.value = U8.vector(lanes)[place].to(I32)
                    with several:
                        held.value = repeated(place)
                value = held.value
                tap = (p * r.k_w + q) * r.c + (channel + (r.c << 1))
                weight = i32[r.packed + (tap << 2)]
                total.value += (value - zero) * weight
        factor = f32[U8.at(bias + (r.c << 2))]
        acc = total.value
        product = acc.to(F32) * factor
        result = word(acc, product, r) if out == "words" else in_order(byte_rounder(r)([product]), 1)
        _store(result, y + channel * size, r.c - channel)

    def run(args, thread, threads):
        r = read(args)
        units = r.n * r.out_h
        start, stop = share(units, thread, threads)
        for unit in range(start, stop):
            row = remainder(unit, r.out_h)
            up = row * r.stride_y - r.pad_y
            rows = steps(0, up, r.dilation_y, r.k_h), steps(r.h, up, r.dilation_y, r.k_h)
            line = r.x + (divide(unit, r.out_h) * r.h + up) * r.w * r.ldx
            y = r.y + unit * r.out_w * r.ldy * size
            for column in range(r.out_w):
                left = column * r.stride_x - r.pad_x
                columns = steps(0, left, r.dilation_x, r.k_w), steps(r.w, left, r.dilation_x, r.k_w)
                for channel in range(0, r.c, lanes):
                    output(args, line + left * r.ldx, y + column * r.ldy * size, channel, rows, columns)

    return run


def _store(result: Value, target: Value, left: Value) -> None:
    """Store a vector, or as many of its elements as are left."""
    kind = result.type
    with either(left >= kind.lanes) as (whole, part):
        with whole:
            kind[U8.at(target)] = result
        with part:
            kept, item = room(kind), kind.number
            kind[kept] = result
            for i in over(left):
                item.at(target)[i] = item.at(kept)[i]


def _shares(first: Value, multiplier: Value, lanes: int) -> Value:
    """(first + i) // multiplier of every lane i, for numbers well below 2**22."""
    index = first.to(I32) + indices(lanes)
    middle = index.to(F32) + 0.5
    return (middle / multiplier.to(I32).to(F32)).to(I32)
