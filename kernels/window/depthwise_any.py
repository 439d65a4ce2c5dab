"""Depthwise convolution, channels last: window, strides and dilations at run time, in up to three dimensions.

Taps of a row are added in groups where outputs are as far apart as taps, or twice as far: then a column of x is loaded
once for all outputs of a tile that read it by taps of a group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..core.record import Record
from ..gemm.rows import STORES
from ..isa.tiers import Tier
from ..lang import F32, I32, U8, Registers, Type, Value, either, opaque, over, register, registers, tier, when
from ..lang.instructions import below, choose, divide, larger, remainder, smaller
from .depthwise_across import summed_across
from .results import finish, finish_sums, outputs_at, walk_row
from .rows import DEPTHWISE_ANY, DEPTHWISE_INT8_ANY, GROUP, STRIP, wide_tile
from .window import Place, Range, add_column, constants, nest, nest_or_across, slots, taps_inside, window_rows


@dataclass(frozen=True)
class Sums:
    """The sums of a tile: sums[t * vectors + i] is vector i, of type `kind`, of output t. `load`: address -> vector of
    x; `r`: the record; `left`: the column of x of the first window's first tap; `across`: elements from tap to tap of a
    row; `grouped`: how many taps are added by groups, where outputs are one tap apart, and where they are two."""

    kind: Type
    r: Any
    left: Value
    across: Value
    grouped: tuple[Value, Value]
    load: Callable[[Value], Value]
    sums: Registers
    vectors: int

    @property
    def outputs(self) -> int:
        return wide_tile(tier(), self.vectors)


def make_depthwise_any(tier: Tier, vectors: int, repeated: bool) -> Callable:
    """As make_depthwise, for any window. Output channel o reads input channel o // multiplier where the kernel is
    `repeated`, else o. `across` says which are computed in vectors across pixels.
    """
    row_of_outputs = _tiles(tier, DEPTHWISE_ANY, vectors, repeated)
    if vectors != STRIP or repeated:
        return nest(DEPTHWISE_ANY, row_of_outputs)
    return nest_or_across(DEPTHWISE_ANY, row_of_outputs, summed_across(F32.vector(tier.lanes)))


def make_depthwise_any_int8(tier: Tier, out: str) -> Callable:
    """The same kernel for bytes less x's zero point, always `repeated`; out: one of gemm's STORES."""
    return nest(DEPTHWISE_INT8_ANY, _tiles(tier, DEPTHWISE_INT8_ANY, 1, True, out))


def _tiles(tier: Tier, record: Record, vectors: int, repeated: bool, out: str | None = None) -> Callable[[Place], None]:
    """A function that computes a row of outputs. out: what a kernel of bytes stores; those of f32 have None."""
    number, sum_of = (U8, I32) if out else (F32, F32)
    kind, wide = sum_of.vector(tier.lanes), wide_tile(tier, vectors)

    def row_of_outputs(place: Place) -> None:
        r = slots(place.args, record)
        begin, planes, rows = taps_inside(r, place, number.size)
        for column in over(*place.columns, wide):
            left = column * r.stride_x - r.pad_x
            x = begin + number.size * (left * r.ldx)
            for channel in over(place.channel, place.end, vectors * kind.lanes):
                one_tile(replace(place, channel=channel), column, left, x, planes, rows)
        walk_row(record, place)

    def one_tile(place: Place, column: Value, left: Value, x: Value, planes: Range, rows: Range) -> None:
        """The tile from a column of y on; x: the address of what is in column `left`."""
        r = slots(place.args, record)
        weights, bias = (kind.number.at(address) + place.channel for address in (r.weights, r.bias))
        sums = registers(constants(kind, bias, vectors) * wide)
        load, channel = _repeated(kind, r, place.channel) if repeated else (kind.__getitem__, place.channel)
        across = r.dilation_x * r.ldx
        whole = r.k_w - remainder(r.k_w, GROUP)
        grouped = choose(r.stride_x == r.dilation_x, whole, 0), choose(r.stride_x == r.dilation_x * 2, whole, 0)
        tile = Sums(kind, r, left, across, grouped, load, sums, vectors)
        for row, taps in window_rows(r, number.at(x) + channel, planes, rows, weights):
            _add_row(tile, row, taps)
        size, count = STORES[out] if out else F32.size, smaller(place.columns[1] - column, wide)
        outputs = outputs_at(r, place, column, count, size=size)
        if out:
            finish_sums(record, place, outputs, sums.values(), out)
        else:
            finish(record, place, outputs, sums.values(), vectors)

    return row_of_outputs


def _add_row(tile: Sums, x: Value, tap: Value) -> None:
    """Add the taps of a row of the window; x: where column `left` is, tap: where their weights are."""
    r, done = tile.r, tile.left
    pixel, weights = register(x), register(tap)
    one, two = tile.grouped
    for count, apart, number in ((GROUP, 1, one), (GROUP, 2, two), (1, 1, r.k_w)):
        end = larger(tile.left + number * r.dilation_x, done)
        # Up to here the first column may be for all of them to exist.
        room = larger(r.w - (r.stride_x * (tile.outputs - 1) + r.dilation_x * (count - 1)), 0)
        for at in over(done, end, r.dilation_x * count):
            x, tap = pixel.value, weights.value
            with either(below(at, room)) as (inner, edge):
                with inner:
                    _add_taps(tile, x, tap, count, apart)
                with edge:
                    _add_taps(tile, x, tap, count, apart, at)
            pixel.value = x + tile.across * count
            weights.value = tap + r.c * count
        done = end


def _add_taps(tile: Sums, x: Value, tap: Value, count: int, apart: int, at: Value | None = None) -> None:
    """Add `count` taps, of which the first reads column `at` for the first output, at x; all columns exist where that
    is None. apart: taps from output to output, where there are several.
    """
    r, vectors, outputs = tile.r, tile.vectors, tile.outputs
    weights = [constants(tile.kind, tap + r.c * k, vectors) for k in range(count)]
    distance = r.stride_x if apart == 1 else r.dilation_x
    step = distance * r.ldx
    for j in range((outputs - 1) * apart + count):
        if j:
            x = opaque(x + step)
        with when(None if at is None else below(at + distance * j, r.w)):
            values = [tile.load(x + i * tile.kind.lanes) for i in range(vectors)]
            users = [(t, j - t * apart) for t in reversed(range(outputs)) if 0 <= j - t * apart < count]
            add_column(tile.sums, users, values, weights, settled=count > 1)


def _repeated(kind: Type, r: Any, channel: Value) -> tuple[Callable[[Value], Value], Value]:
    """(load(pixel), first): a load of the input channels of a vector of output channels from `channel` on, bytes less
    their zero point, and the first of these input channels."""
    f32, first = F32.like(kind), divide(channel, r.multiplier)
    # Halfway between whole numbers: far from where rounding would give another quotient.
    numbers = (channel - first * r.multiplier).to(F32) + f32([i + 0.5 for i in range(f32.lanes)])
    index = (numbers / r.multiplier.to(F32)).to(I32)

    def load(pixel: Value) -> Value:
        x: Value = tier().isa.permute(pixel, index)
        return x if kind.number.real else x - r.zero_x.to(I32)

    return load, first
