"""f32 depthwise convolution, channels last: window, strides and dilations at run time, in up to three dimensions.

Some taps of a row are added together. Where they are as far apart as outputs are, a column of x is loaded once for all
outputs of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from ..isa.tiers import Tier
from ..lang import (
    F32,
    I32,
    Value,
    below,
    choose,
    constant,
    divide,
    either,
    fma,
    larger,
    opaque,
    over,
    register,
    registers,
    remainder,
    settle,
    smaller,
    when,
)
from .results import Outputs, finish, walk_row
from .rows import DEPTHWISE_ANY
from .window import Place, constants, f32_at, nest, output_at, slots, taps_inside

TILE = 7
"""Neighboring outputs of a row that are computed together."""
GROUP = 3
"""Taps of a row that are added together."""


def make_depthwise_any(tier: Tier, vectors: int, repeated: bool) -> Callable:
    """As make_depthwise, for any window. Output channel o reads input channel o // multiplier where the kernel is
    `repeated`, else o.
    """
    f32 = F32.vector(tier.lanes)

    def row(place: Place) -> None:
        r = slots(place, DEPTHWISE_ANY)
        begin, planes, rows = taps_inside(r, place)
        for column in over(0, r.out_w, TILE):
            left = column * r.stride_x - r.pad_x
            x = begin + (left * r.ldx << 2)
            for channel in over(place.channel, place.end, vectors * f32.lanes):
                here = replace(place, channel=channel)
                sums = sums_of(here, left, x, planes, rows)
                y, pixel = output_at(r, here, column)
                out = Outputs(y, pixel, smaller(r.out_w - column, TILE))
                finish(f32, DEPTHWISE_ANY, here, out, sums, vectors)

    def sums_of(place: Place, left: Value, x: Value, planes: Any, rows: Any) -> list[Value]:
        """Of one tile; `left`: the column of x at which its first window begins, x: the address of that."""
        r = slots(place, DEPTHWISE_ANY)
        weights, bias = (f32_at(address, place.channel) for address in (r.weights, r.bias))
        sums = registers(constants(f32, bias, vectors) * TILE)
        load, channel = _repeated(tier, r.multiplier, place.channel) if repeated else (f32.__getitem__, place.channel)
        line, across, shared = r.w * r.ldx, r.dilation_x * r.ldx, r.dilation_x == r.stride_x
        grouped = choose(shared, r.k_w - remainder(r.k_w, GROUP), 0)

        def add_taps(x: Value, tap: Value, at: Value, count: int, checked: bool) -> None:
            """Add `count` taps, whose first column is `at`, at the pointer x. `checked`: not all columns exist."""
            found = [constants(f32, tap + r.c * k, vectors) for k in range(count)]
            pixel, step = x, r.stride_x * r.ldx
            for j in range(TILE + count - 1):
                if j:
                    pixel = F32.at(opaque((pixel + step).address))
                exists = below(at + r.stride_x * j, r.w)
                with when(exists) if checked else nullcontext():
                    values = [load(pixel + i * f32.lanes) for i in range(vectors)]
                    users = [(j - k, k) for k in range(max(0, j - TILE + 1), min(count, j + 1))]
                    for t, k in users:
                        for i, value in enumerate(values):
                            number = t * vectors + i
                            sums[number] = fma(value, found[k][i], sums[number])
                    if vectors > 1 and count > 1:
                        settle(sums, [t * vectors + i for t, _ in users for i in range(vectors)])

        def add_row(first: Value, tap: Value) -> None:
            """Add a row of taps."""
            x, weight, done = register(first), register(tap), left
            for count, number in ((GROUP, grouped), (1, r.k_w)):
                end = left + number * r.dilation_x
                # Up to here the first column may be for all of them to exist.
                room = larger(r.w - r.stride_x * (TILE + count - 2), 0)
                for at in over(done, end, r.dilation_x * count):
                    here, weights = x.value, weight.value
                    with either(below(at, room)) as (inner, edge):
                        with inner:
                            add_taps(here, weights, at, count, False)
                        with edge:
                            add_taps(here, weights, at, count, True)
                    x.value = here + across * count
                    weight.value = weights + r.c * count
                done = end

        for z in over(*planes):
            plane = f32_at(x, channel) + line * (z * (r.dilation_z * r.h))
            source = register(plane + rows[0] * r.dilation_y * line)
            tap = register(weights + (z * r.k_h + rows[0]) * r.k_w * r.c)
            for _ in over(*rows):
                add_row(source.value, tap.value)
                source.value += line * r.dilation_y
                tap.value += r.k_w * r.c
        return sums.values()

    return nest(DEPTHWISE_ANY, row, walk_row)


def _repeated(tier: Tier, multiplier: Value, channel: Value) -> tuple[Callable[[Value], Value], Value]:
    """(load(pixel), first): the input channels of a vector of output channels from `channel` on; `first`: the first."""
    f32 = F32.vector(tier.lanes)
    first = divide(channel, multiplier)
    passed = channel - first * multiplier
    # Halfway between whole numbers: far from where rounding would give another quotient.
    halfway = constant(f32, [i + 0.5 for i in range(f32.lanes)])
    index = ((passed.to(F32) + halfway) / multiplier.to(F32)).to(I32)

    return lambda pixel: tier.isa.permute(pixel, index), first
