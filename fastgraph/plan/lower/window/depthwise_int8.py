"""Depthwise convolution of bytes: its candidates."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....kernels.isa.tiers import Tier
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
from ...choose import Candidate
from ...layer import Integers, Layer, by_tap
from ...program import Ref
from ...quantized import folded_bias
from ..emit import Rows, in_order
from ..registry import Emit, Slot, row_count


def _wide(layer: Layer[Integers], tier: Tier) -> bool:
    """Whether weights less their zero points take 16 bits, as the tier sums them or as they don't fit into 8."""
    if not tier.byte_dot or not layer.numbers.rowsum:
        return not tier.byte_dot
    weights = _centered(layer.numbers)
    return bool((weights != weights.astype(np.int8)).any())


def _windows(layer: Layer[Integers], tier: Tier) -> bool:
    """Whether there are packed constants: for bytes of as many channels as x has."""
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


def _emit_any(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    numbers = layer.numbers
    part = Part(0, layer.n, "depthwise_int8_any", {"out": numbers.out})
    _call(
        e, node, layer, rows, part, weights=e.packed(_halves, numbers), bias=e.packed(_words, numbers.bias),
        multipliers=e.packed(in_order, numbers.multipliers), multiplier=layer.n // layer.inputs, zero_x=layer.zero,
    )  # fmt: skip


def _emit_window(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    _filled(e, node, layer, rows, Part(0, layer.n, "depthwise_int8_window", {"wide": _wide(layer, e.tier)}))


def _emit_pixels(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    for part in _pixels(layer, e.tier):
        _filled(e, node, layer, rows, part)


def _emit_across(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    part = _across(layer, e.tier)
    assert part is not None
    packed = e.packed(_packed, e.tier, layer.numbers, layer.zero, part)
    _call(e, node, layer, rows, part, packed=packed, zero_x=layer.zero)


def _filled(e: Emit, node: Node, layer: Layer[Integers], rows: Rows, part: Part) -> None:
    """A kernel that reads zero points in place of what lies outside of x: rounded up, so that layers share them."""
    blank = 1 << (fill_bytes(e.tier, part.params, layer.ldx) - 1).bit_length()
    packed = e.packed(_packed, e.tier, layer.numbers, layer.zero, part)
    _call(e, node, layer, rows, part, packed=packed, fill=e.packed(_blank, blank, layer.zero))


def _call(e: Emit, node: Node, layer: Layer[Integers], rows: Rows, part: Part, **own: Slot) -> None:
    """One kernel's part of the channels."""
    where = layer.window._replace(channels=part.channels)
    shapes = depthwise_int8_args(e.tier, part.name, part.params, where, e.threads)
    if "scratch_bytes" in shapes:
        own["scratch"] = e.scratch(shapes["scratch_bytes"] * e.threads)
    args: dict[str, Slot] = {
        **shapes, "x": _further(rows.x, part.start), "ldx": layer.ldx, "y": _further(rows.y, part.start),
        "ldy": layer.ldy, **layer.numbers.stored, **own,
    }  # fmt: skip
    share = layer.pixels / row_count(node.out) * part.channels / layer.n
    e.kernel(part.name, part.params, args, share=share)


def _centered(numbers: Integers) -> np.ndarray:
    """int64 [k_h, k_w, n]: the weights less their zero points."""
    taps = by_tap(numbers.weights).astype(np.int64) - numbers.zeros
    return taps.reshape(*(1,) * (3 - taps.ndim), *taps.shape)


def _words(numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(np.int32)


def _halves(numbers: Integers) -> np.ndarray:
    return halves(_centered(numbers))


def _packed(tier: Tier, numbers: Integers, zero: int, part: Part) -> np.ndarray:
    """What a kernel reads of its channels."""
    own = slice(part.start, part.start + part.channels)
    weights = _centered(numbers)[..., own]
    bias = folded_bias(weights.reshape(-1, part.channels).T, numbers.bias[own], zero)
    return pack_depthwise_int8(part.name, part.params, tier, weights, bias, numbers.multipliers[own])


def _blank(count: int, number: int) -> np.ndarray:
    return np.full(count, number, np.uint8)


def _further(place: Ref, nbytes: int) -> Ref:
    return place.plus(nbytes)


DEPTHWISE: tuple[Candidate[Layer[Integers]], ...] = (
    Candidate(
        "depthwise_int8_any", lambda layer, tier: layer.form == "depthwise",
        lambda layer, tier: [4 * window_cycles(tier, layer.window)], _emit_any,
    ),
    Candidate(
        "depthwise_int8_window", _windows, lambda layer, tier: [window_cycles(tier, layer.window)], _emit_window
    ),
    Candidate(
        "depthwise_int8", _unrolls, lambda layer, tier: [pixel_cycles(tier, _pixels(layer, tier))], _emit_pixels
    ),
    Candidate("depthwise_int8_across", lambda layer, tier: _across(layer, tier) is not None, _across_cycles,
              _emit_across),
)  # fmt: skip
