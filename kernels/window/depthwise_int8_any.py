"""Depthwise convolution of bytes for any window of two dimensions and any number of outputs per channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..gemm.requantize import byte_rounder, word
from ..gemm.rows import STORES
from ..isa.integer import in_order
from ..isa.stores import store_some
from ..isa.tiers import Tier
from ..lang import (
    F32,
    I32,
    U8,
    Type,
    Value,
    choose,
    divide,
    either,
    over,
    register,
    remainder,
    share,
    traced,
)  # fmt: skip
from .rows import DEPTHWISE_INT8_ANY
from .window import Range, first_row, slots, steps_inside


def make_depthwise_any(tier: Tier, out: str) -> Callable:
    """y[n, i, j, c] of the x[n, i stride_y + p dilation_y - pad_y, j stride_x + q dilation_x - pad_x, c // multiplier]
    in the image.

    out: one of gemm's STORES, of which i32 isn't made.
    """
    size = STORES[out]
    fields = reader(DEPTHWISE_INT8_ANY)
    lanes = tier.lanes
    f32, i32, u8 = (kind.vector(lanes) for kind in (F32, I32, U8))

    @traced
    def output(args: Any, x: Any, y: Any, channel: Any, rows: Range, columns: Range) -> None:
        """A vector of channels; x: where the window begins."""
        r = slots(args, DEPTHWISE_INT8_ANY)
        bias = r.packed + 4 * channel
        total, zero = register(i32[bias]), i32(r.zero_x.to(I32))
        source, first = x + divide(channel, r.multiplier), remainder(channel, r.multiplier)
        alone = r.multiplier == 1
        load = _repeated(i32, first, r.multiplier)
        held = register(i32(0))
        for p in over(*rows):
            for q in over(*columns):
                place = source + (p * r.dilation_y * r.w + q * r.dilation_x) * r.ldx
                with either(alone, likely=True) as (each, several):
                    with each:
                        held.value = u8[place].to(I32)
                    with several:
                        held.value = load(place)
                value = held.value
                tap = (p * r.k_w + q) * r.c + (channel + 2 * r.c)
                weight = i32[r.packed + 4 * tap]
                total.value = total.value + (value - zero) * weight
        factor, acc = f32[bias + 4 * r.c], total.value
        product = acc.to(F32) * factor
        result = word(acc, product, r) if out == "words" else in_order(byte_rounder(r)([product]), 1)
        store_some(result, y + channel * size, r.c - channel)

    def run(args: int, thread: int, threads: int) -> None:
        r = fields(args)
        units = r.n * r.out_h
        start, stop = share(units, thread, threads)
        for unit in range(start, stop):
            _, rows, line = first_row(r, unit)
            y = r.y + unit * r.out_w * r.ldy * size
            for column in range(r.out_w):
                left = column * r.stride_x - r.pad_x
                columns = steps_inside(r.w, left, r.dilation_x, r.k_w)
                for channel in range(0, r.c, lanes):
                    output(args, line + left * r.ldx, y + column * r.ldy * size, channel, rows, columns)

    return run


def _repeated(i32: Type, first: Value, multiplier: Value) -> Callable[[Value], Value]:
    """load(place): the bytes from there on, each as often as the multiplier says, the first of them `first` times
    less.
    """
    shares = _shares(i32, first, multiplier)
    inputs = divide(first + (i32.lanes - 1), multiplier) + 1

    def load(place: Value) -> Value:
        found = register(i32(0))
        for i in over(inputs):
            one = i32(U8[place + i].to(I32))
            found.value = choose(shares == i.to(I32), one, found.value)
        return found.value

    return load


def _shares(i32: Type, first: Value, multiplier: Value) -> Value:
    """(first + i) // multiplier of every lane i, for numbers well below 2**22."""
    index = i32(first.to(I32)) + i32(range(i32.lanes))
    return ((index.to(F32) + 0.5) / i32(multiplier.to(I32)).to(F32)).to(I32)
