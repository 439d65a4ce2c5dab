"""Depthwise convolution of few channels, dense, of stride 1 along rows, in vectors across pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..lang import (
    F32,
    I64,
    Registers,
    Type,
    Value,
    below,
    cases,
    divide,
    either,
    over,
    pieces,
    register,
    registers,
    remainder,
    share,
    smaller,
    tier,
    traced,
    when,
)
from .results import Outputs, finish, walk_row
from .rows import DEPTHWISE_ANY, STRIP, UNROLLED_ROWS, wide_tile
from .window import Place, add_column, constants, slots, spread


def summed_across(kind: Type) -> Callable[..., None]:
    """What a kernel does for a record with `across`: (args, thread, threads). A row of x is one run of numbers, which
    each tap of a row of the window reads at a fixed offset, and so is a row of y."""

    @traced
    def outputs(args: Value, thread: Value, threads: Value) -> None:
        r = slots(args, DEPTHWISE_ANY)
        bands, height, end = pieces(r.out_h, r.band), wide_tile(tier(), STRIP), r.out_w * r.c
        whole = I64(0), r.out_w

        def all_bands(size: int) -> None:
            for unit in over(*share(r.n * bands, thread, threads)):
                image, top = divide(unit, bands), remainder(unit, bands) * r.band
                bottom = smaller(top + r.band, r.out_h)
                for first in over(top, bottom, height):
                    count = smaller(bottom - first, height)
                    with either(count <= FEW) as ways:
                        for way, most in zip(ways, (FEW, height), strict=True):
                            with way:
                                for begin in over(0, end, STRIP * kind.lanes):
                                    _tile(kind, size, Place(args, image, first, begin, end, whole), most, count)
                    for row in over(first, first + count):
                        walk_row(DEPTHWISE_ANY, Place(args, image, row, I64(0), r.c, whole))

        cases(r.k_h, {size: partial(all_bands, size) for size in UNROLLED_ROWS}, partial(all_bands, 0))

    return outputs


FEW = 4
"""Rows for which there is a tile of as many, for the last of a map or band."""


class Strip(NamedTuple):
    """A tile of some rows and vectors, and a column of taps. `top`: the row of x that the first tap reads for the first
    row of outputs; `masks`: of each vector, the lanes that do not read padding on the left or right.
    """

    kind: Type
    r: Any
    sums: Registers
    top: Value
    masks: Sequence[Value]


def _tile(kind: Type, size: int, place: Place, height: int, count: Value) -> None:
    """`count` rows of outputs of at most `height`, from the place's on, of two vectors each. The place's `channel`
    counts the numbers of a row, of all pixels. `size`: see `_add_rows`.
    """
    r, lanes = slots(place.args, DEPTHWISE_ANY), kind.lanes
    line, top = r.w * r.c, place.row * r.stride_y - r.pad_y
    phase = remainder(place.channel, r.across - (STRIP - 1) * lanes)
    sums = registers(constants(kind, F32.at(r.bias) + phase, STRIP) * height)
    x, weights = F32.at(r.x) + (place.image * r.h + top) * line, F32.at(r.weights) + phase
    for q in over(r.k_w):
        left = place.channel + (q * r.dilation_x - r.pad_x) * r.c
        with when((left > -STRIP * lanes) & (left < line)):
            begins = [left + i * lanes for i in range(STRIP)]
            masks = [kind.below(line - begin) & ~kind.below(-begin) for begin in begins]
            _add_rows(Strip(kind, r, sums, top, masks), size, x + left, weights + q * r.k_h * r.across)
    y = r.y + F32.size * ((place.image * r.out_h + place.row) * place.end + place.channel)
    out = Outputs(y, place.row * r.out_w, count, r.out_w)
    finish(DEPTHWISE_ANY, place, out, sums.values(), STRIP)


def _add_rows(strip: Strip, size: int, x: Value, tap: Value) -> None:
    """Add a column of taps, row by row of x: tap k of output row t reads row t + k. size: the number of taps,
    which are unrolled; 0: any number, in a loop. x, tap: where numbers and weights of the first are.
    """
    kind, r, last = strip.kind, strip.r, len(strip.sums) // STRIP - 1
    pixel, at, behind = register(x), register(strip.top), register(tap)

    def add(outputs: range, taps: Sequence[Any]) -> None:
        """Add the next row of x to some rows of outputs: the last of these by the first of `taps`, the one before by
        the second, and so on. taps: pointers to weights, or loaded weights.
        """
        with when(below(at.value, r.h)):
            values = [kind[pixel.value + i * kind.lanes, mask] for i, mask in enumerate(strip.masks)]
            weights = [tap if isinstance(tap, list) else constants(kind, tap, STRIP) for tap in taps[: len(outputs)]]
            add_column(strip.sums, [(t, outputs[-1] - t) for t in outputs], values, weights, settled=False)
        pixel.value, at.value = pixel.value + r.w * r.c, at.value + 1

    if size:
        taps: list[Any] = spread(tap, r.across, size)
        if tier().registers >= 32:
            taps = [constants(kind, weight, STRIP) for weight in taps]
        for j in range(last + size):
            add(range(max(j - size + 1, 0), min(j, last) + 1), taps[max(j - last, 0) :])
        return
    first = spread(tap, r.across, last)
    for j in range(last):
        add(range(j + 1), first)
    for _ in over(r.k_h - last):
        add(range(last + 1), spread(behind.value, r.across, last + 1))
        behind.value = behind.value + r.across
    end = spread(behind.value, r.across, last)
    for j in range(last):
        add(range(j + 1, last + 1), end[j:])
