"""Candidates for quantized convolutions, depthwise convolutions, dense layers and products by a constant matrix."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....freedoms import threshold
from ....ir import Node
from ....kernels.gemm.pack import Arrangement
from ....kernels.gemm.pack_int8 import Words
from ....kernels.gemm.pick_conv import Geometry
from ....kernels.gemm.pick_dot import Product
from ....kernels.gemm.pick_int8 import (
    Sums,
    chains,
    merged_cycles,
    parts_of_vectors,
    pick_conv_int8,
    pick_dot_int8,
    pixels_together_int8,
    row_args,
    row_params,
    vector_cycles,
    word_of,
)
from ....kernels.isa.lanes import PARTS
from ....kernels.isa.tiers import TOGETHER, Tier
from ....kernels.window.pick import Window
from ....kernels.window.pick_depthwise_int8 import (
    Part,
    across_cycles,
    across_pixels,
    depthwise_int8_args,
    fill_bytes,
    halves,
    in_pixels,
    is_unrolled,
    pack_depthwise_int8,
    pixel_cycles,
    window_cycles,
)
from ....kernels.window.pick_int8_pairs import block_of, has_pairs, pack_pairs, pair_cycles
from ...choose import Candidate
from ...layer import Integers, Layer, by_tap, together
from ...quantized import folded_bias
from ..emit import Rows, in_order
from ..registry import Emit, Slot
from .calls import Pack, columns_of, conv_calls, dot_calls, panels, part_of, tile_slots

TILE_GAIN = 1.1
"""The predicted speedup from which on AMX tiles are used."""


def cycles(layer: Layer[Integers], tier: Tier) -> list[float]:
    return [vector_cycles(layer.merged(tier)[0])]


def words_of(run: int, sums: Sums) -> Words:
    """The words of runs of `run` products that tiles sum."""
    return Words(run, together=TOGETHER * sums.small)


def packed(e: Emit, layer: Layer[Integers], how: Arrangement, words: Words) -> Pack:
    zero = layer.zero + 128 * layer.signed
    return lambda columns: e.packed(panels, e.tier, layer.numbers, how, zero, columns, words)


def _dot(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    numbers, m, k = layer.numbers, layer.pixels, layer.numbers.weights[0].size
    sums, again = numbers.sums(e.tier)
    pieces = pick_dot_int8(e.tier, Product(m, layer.n, k, 1, layer.ldx), sums, e.threads, again=again)
    pack = packed(e, layer, Arrangement(), words_of(k, sums))
    dot_calls(e, layer, rows, "dot_int8", pieces, pack, m=m, k=-(-k // 4), **numbers.stored)


def _row(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    numbers, k = layer.numbers, layer.numbers.weights[0].size
    product, (sums, again) = Product(1, layer.n, k, 1, layer.ldx), numbers.sums(e.tier, together=1)
    for piece in pick_dot_int8(e.tier, product, sums, e.threads, row=True, again=again):
        words = Words(k, chains(piece.nv), together=int(sums.small))
        weights = packed(e, layer, Arrangement(), words)(columns_of(piece))
        ends: dict[str, Slot] = {"a": rows.x, "b": weights, "c": rows.y}
        args = {**row_args(piece, k, layer.signed), **ends, **numbers.stored}
        e.kernel("row_int8", row_params(piece), args, share=part_of(e, 1) * piece.columns / layer.n)


def _merged(layer: Layer[Integers], tier: Tier) -> tuple[Geometry, Arrangement, int]:
    """The layer as a convolution of groups that fill a vector, or half of one for a window where there are kernels for
    that; and the parts of a vector that there are.
    """
    parts = parts_of_vectors(tier, Sums(layer.numbers.out, layer.numbers.rowsum(tier)))
    return *layer.merged(tier, parts if prod(layer.window.kernel) > 1 else 1), parts


def _conv(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    numbers, (g, how, parts) = layer.numbers, _merged(layer, e.tier)
    sums, again = numbers.sums(e.tier)
    for part in together(g, how, pixels_together_int8(e.tier, g, parts) if layer.ldy == g.n else 1):
        upright, pieces = pick_conv_int8(e.tier, part.g, sums, e.threads, again)
        pack = packed(e, layer, part.how, words_of(upright.run, sums))
        conv_calls(e, layer, rows, "conv_int8", pieces, part, pack, fill=word_of(layer.zero), **numbers.stored)


# -- on tiers with tiles, whose modules others don't import


def tiles_suit(layer: Layer[Integers], tier: Tier) -> bool:
    """Whether the tier has tile registers, and the layer suits: not depthwise."""
    return tier.tiles and layer.form != "depthwise" and not layer.signed


def tile_cycles(layer: Layer[Integers], tier: Tier) -> list[float]:
    """The times of a candidate on tiles; weights with zero points take up to twice as many lines."""
    from ....kernels.amx import pick_amx

    factor = TILE_GAIN * (1 + layer.numbers.rowsum(tier)) * (threshold("tiles_least", 2) > 1)
    return [factor * pick_amx.tile_cycles(layer.merged(tier)[0])]


def all_lines(e: Emit, numbers: Integers, how: Arrangement, choice: Any) -> Any:
    """A TileChoice with all lines that the weights take."""
    if not numbers.zeros.any():
        return choice
    return choice.in_order(e.array(e.packed(_order, numbers, how, choice.runs, choice.run)))


def _order(numbers: Integers, how: Arrangement, runs: int, length: int) -> np.ndarray:
    return tile_lines(numbers, how, runs, length)[1]


def tile_lines(numbers: Integers, how: Arrangement, runs: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """`in_lines` of a layer's weights less their zero points."""
    from ....kernels.amx.pack_amx import in_lines

    own = numbers.arranged(how)
    weights = own.weights.reshape(len(own.zeros), -1).astype(np.int16) - own.zeros[:, None].astype(np.int16)
    return in_lines(weights.reshape(how.merged, -1, runs, length))


def _tiles(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    from ....kernels.amx.pick_amx import amx_args, pick_amx
    from ....kernels.amx.rows import NO_SUM

    (g, how), numbers = layer.merged(e.tier), layer.numbers
    choice = all_lines(e, numbers, how, pick_amx(g, e.threads, numbers.out))
    panels = e.packed(_tile_panels, numbers, how, layer.zero, choice.runs, choice.run, choice.params["nt"])
    slots = {**NO_SUM, **numbers.stored, **tile_slots(e, choice, rows, layer.ldy, panels)}
    e.kernel("amx_conv", choice.params, amx_args(choice, layer.zero, **slots), share=part_of(e, layer.pixels))


def _tile_panels(numbers: Integers, how: Arrangement, zero: int, runs: int, length: int, nt: int) -> np.ndarray:
    from ....kernels.amx.pack_amx import pack_amx

    weights = numbers.arranged(how).weights.reshape(len(numbers.weights), -1)
    start = folded_bias(weights, numbers.bias, zero, numbers.zeros)
    lines, _ = tile_lines(numbers, how, runs, length)
    head = [v.reshape(how.merged, -1) for v in (start, numbers.multipliers)]
    return pack_amx(lines, head, nt, numbers.out)


# -- depthwise


def _few(layer: Layer[Integers], tier: Tier) -> bool:
    """Whether channels fill so little of a vector of bytes that products with zeros may be fewer."""
    return tier.byte_dot and _windows(layer, tier) and not layer.numbers.rowsum(tier) and layer.n <= tier.lanes


def _few_cycles(layer: Layer[Integers], tier: Tier) -> list[float]:
    g, _, parts = _merged(layer, tier)
    return [merged_cycles(tier, g, parts)]


def _few_on_tiles(layer: Layer[Integers], tier: Tier) -> bool:
    """As `_few`, of half a vector of sums at least, and windows without an unrolled kernel."""
    many = 2 * layer.n >= tier.lanes and not is_unrolled(layer.window)
    return tier.tiles and many and _few(layer, tier) and not layer.signed


def _few_tile_cycles(layer: Layer[Integers], tier: Tier) -> list[float]:
    """Cycles per output pixel (measured at 3x3 to 11x11 and 3 to 16 channels): most are the end's."""
    _, k_h, k_w = layer.window.kernel
    return [28 + 2.8 * k_h * -(-k_w * layer.n // (4 * tier.lanes))]


def _wide(layer: Layer[Integers], tier: Tier) -> bool:
    """Whether weights less their zero points need 16 bits, because of their range or of how the tier sums products."""
    if not layer.numbers.rowsum(tier):
        return not tier.byte_dot
    weights = _centered(layer.numbers)
    return bool((weights != weights.astype(np.int8)).any())


def _windows(layer: Layer[Integers], tier: Tier) -> bool:
    """Whether the depthwise kernels with packed constants apply: bytes, and one output channel per input channel."""
    return layer.form == "depthwise" and layer.n == layer.inputs and layer.numbers.out == "bytes"


def _unrolls(layer: Layer[Integers], tier: Tier) -> bool:
    return _windows(layer, tier) and is_unrolled(layer.window)


def _pixels(layer: Layer[Integers], tier: Tier) -> tuple[Part, ...]:
    return in_pixels(tier, layer.window, _wide(layer, tier))


def _across(layer: Layer[Integers], tier: Tier) -> Part | None:
    dense = _unrolls(layer, tier) and layer.ldy == layer.n
    return across_pixels(tier, layer.window, _wide(layer, tier)) if dense else None


def _across_cycles(layer: Layer[Integers], tier: Tier) -> list[float]:
    part = _across(layer, tier)
    assert part is not None
    return [across_cycles(tier, layer.window, part, layer.ldx)]


def _depthwise_any(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    numbers = layer.numbers
    weights, bias = e.packed(_halves, numbers), e.packed(_words, numbers.bias)
    own = {"weights": weights, "bias": bias, "multipliers": e.packed(in_order, numbers.multipliers)}
    part = Part(0, layer.n, "depthwise_int8_any", {"out": numbers.out})
    _call(e, layer, rows, part, **own, multiplier=layer.n // layer.inputs, zero_x=layer.zero)


def _depthwise_window(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    _filled(e, layer, rows, Part(0, layer.n, "depthwise_int8_window", {"wide": _wide(layer, e.tier)}))


def _depthwise_pixels(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    for part in _pixels(layer, e.tier):
        _filled(e, layer, rows, part)


def _depthwise_across(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    part = _across(layer, e.tier)
    assert part is not None
    windows = e.packed(_packed_windows, e.tier, layer.numbers, layer.zero, part)
    _call(e, layer, rows, part, packed=windows, zero_x=layer.zero)


def _pairs(layer: Layer[Integers], tier: Tier) -> bool:
    return _windows(layer, tier) and has_pairs(tier, layer.window)


def _depthwise_pairs(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    g = layer.window
    own: dict[str, Slot] = {
        "packed": e.packed(_packed_pairs, e.tier, layer.numbers, layer.zero, g),
        "zero_x": layer.zero,
    }
    _call(e, layer, rows, Part(0, layer.n, "depthwise_int8_pairs", {"stride": g.strides[1]}), **own)


def _packed_pairs(tier: Tier, numbers: Integers, zero: int, g: Window) -> np.ndarray:
    weights = _centered(numbers)
    bias = folded_bias(weights.reshape(-1, g.channels).T, numbers.bias, zero)
    return pack_pairs(tier, g.strides[1], block_of(tier, g), weights, bias, numbers.multipliers)


def _filled(e: Emit, layer: Layer[Integers], rows: Rows, part: Part) -> None:
    """A buffer of zero points of x that a kernel reads for padding; its size is rounded up, so that layers share it."""
    blank = 1 << (fill_bytes(e.tier, part.params, layer.ldx) - 1).bit_length()
    windows = e.packed(_packed_windows, e.tier, layer.numbers, layer.zero, part)
    _call(e, layer, rows, part, packed=windows, fill=e.packed(_blank, blank, layer.zero))


def _call(e: Emit, layer: Layer[Integers], rows: Rows, part: Part, **own: Slot) -> None:
    """The call of one kernel, for its part of the channels."""
    where = layer.window._replace(channels=part.channels)
    shapes = depthwise_int8_args(e.tier, part.name, part.params, where, e.threads)
    if "scratch_bytes" in shapes:
        own["scratch"] = e.scratch(shapes["scratch_bytes"] * e.threads)
    own |= {"x": rows.x.plus(part.start), "ldx": layer.ldx, "y": rows.y.plus(part.start), "ldy": layer.ldy}
    share = part_of(e, layer.pixels) * part.channels / layer.n
    e.kernel(part.name, part.params, {**shapes, **own, **layer.numbers.stored}, share=share)


def _centered(numbers: Integers) -> np.ndarray:
    """int64 [k_h, k_w, n]: the weights less their zero points."""
    taps = by_tap(numbers.weights)[..., 0, :].astype(np.int64) - numbers.zeros
    return taps.reshape(*(1,) * (3 - taps.ndim), *taps.shape)


def _words(numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(np.int32)


def _halves(numbers: Integers) -> np.ndarray:
    return halves(_centered(numbers))


def _packed_windows(tier: Tier, numbers: Integers, zero: int, part: Part) -> np.ndarray:
    """The packed constants of the channels of a kernel."""
    own = slice(part.start, part.start + part.channels)
    weights = _centered(numbers)[..., own]
    bias = folded_bias(weights.reshape(-1, part.channels).T, numbers.bias[own], zero)
    return pack_depthwise_int8(part.name, part.params, tier, weights, bias, numbers.multipliers[own])


def _blank(count: int, number: int) -> np.ndarray:
    return np.full(count, number, np.uint8)


CANDIDATES: tuple[Candidate[Layer[Integers]], ...] = (
    Candidate("row_int8", lambda layer, tier: layer.form == "dense" and layer.pixels == 1, cycles, _row),
    Candidate("dot_int8", lambda layer, tier: layer.form == "dense" and layer.pixels > 1, cycles, _dot),
    Candidate("conv_int8", lambda layer, tier: layer.form == "conv", cycles, _conv),
    Candidate("amx_conv", tiles_suit, tile_cycles, _tiles),
    Candidate("depthwise_int8_any", lambda layer, tier: layer.form == "depthwise",
              lambda layer, tier: [PARTS * window_cycles(tier, layer.window)], _depthwise_any),
    Candidate("depthwise_int8_window", _windows,
              lambda layer, tier: [window_cycles(tier, layer.window)], _depthwise_window),
    Candidate("depthwise_int8", _unrolls,
              lambda layer, tier: [pixel_cycles(tier, _pixels(layer, tier))], _depthwise_pixels),
    Candidate("depthwise_int8_pairs", _pairs, lambda layer, tier: [pair_cycles(tier, layer.window)], _depthwise_pairs),
    Candidate("conv_int8", _few, _few_cycles, _conv),
    Candidate("amx_conv", _few_on_tiles, _few_tile_cycles, _tiles),
    Candidate("depthwise_int8_across", lambda layer, tier: _across(layer, tier) is not None, _across_cycles,
              _depthwise_across),
)  # fmt: skip
