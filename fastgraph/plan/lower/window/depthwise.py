"""Depthwise convolution: each output channel sees one input channel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....ir import Node
from ....kernels.isa.tiers import Tier
from ....kernels.window.pick import Window, plan_depthwise, window_args
from ....kernels.window.pick_depthwise_int8 import (
    Part,
    depthwise_int8_args,
    fill_bytes,
    halves,
    pack_depthwise_int8,
    plan_depthwise_int8,
)
from ...program import Arg, Ref
from ..emit import in_order
from ..epilogue import epilogue
from ..gemm.common import Parameters, Rows, all_rows, is_depthwise, parameters
from ..quantized import folded_bias, zero_point
from ..quantized_layer import Layer, quantized_layer
from ..registry import Emit, last, lowers, row_count
from ..spatial import is_near, window


class Depthwise(NamedTuple):
    """What a depthwise convolution's steps are made from: its window, and the numbers of the layer."""

    window: Window
    layer: Layer | Parameters


def _f32(node: Node) -> Depthwise | None:
    found = parameters(node)
    fits = found and is_depthwise(node) and len(node.x.type.dims) <= 5 and is_near(node)
    return Depthwise(window(node), found) if fits and found else None


def _quantized(node: Node) -> Depthwise | None:
    w = node.inputs[1]
    stored = w is not None and w.type.quant is not None and node.x.type.concrete
    fits = stored and is_depthwise(node) and len(node.x.type.dims) <= 4 and is_near(node)
    layer = quantized_layer(node) if fits else None
    return Depthwise(window(node), layer) if layer else None


@lowers("conv", match=_quantized, strided_in=True, strided_out=True)
@lowers("conv", match=_f32, strided_in=True, strided_out=True, in_place=True)
def depthwise(e: Emit, node: Node, plan: Depthwise) -> None:
    depthwise_rows(e, node, plan, all_rows(e, node))


def depthwise_rows(e: Emit, node: Node, plan: Depthwise, rows: Rows) -> None:
    """Some rows of the result; the plan's window is that over these rows."""
    if isinstance(plan.layer, Parameters):
        _f32_rows(e, node, plan.layer, plan.window, rows)
        return
    weights = _centered(plan.layer)
    fits = bool((weights == weights.astype(np.int8)).all())
    multiplier = last(node.out) // last(node.x)
    for part in plan_depthwise_int8(e.tier, plan.window, rows.ldx, rows.ldy, fits, multiplier, plan.layer.out):
        _quantized_rows(e, node, plan.layer, plan.window._replace(channels=part.channels), rows, part)


def _f32_rows(e: Emit, node: Node, found: Parameters, where: Window, rows: Rows) -> None:
    weights, bias = found
    multiplier = last(node.out) // last(node.x)
    name, params = plan_depthwise(e.tier, where, multiplier)
    end = epilogue(e, node, rows.start, apart=True, long=True)
    args: dict[str, Arg] = {
        **window_args(e.tier, name, params, where, e.threads, walked=end["walk"] != 0), **end,
        "x": rows.x, "ldx": rows.ldx, "y": rows.y, "ldy": rows.ldy,
        "weights": e.packed(_by_tap, weights),
        "bias": e.packed(_zeros, len(weights)) if bias is None else e.packed(in_order, bias),
    }  # fmt: skip
    if name == "depthwise_any":
        args["multiplier"] = multiplier
    e.kernel(name, params, args, share=rows.count / row_count(node.out))


def _by_tap(weights: np.ndarray) -> np.ndarray:
    """[k..., n] from weights [n, k..., 1]."""
    return np.moveaxis(weights[..., 0], 0, -1)


def _zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.float32)


def _centered(layer: Layer) -> np.ndarray:
    """int64 [k_h, k_w, n]: the weights less their zero points."""
    taps = _by_tap(layer.weights).astype(np.int64) - layer.zeros
    return taps.reshape(*(1,) * (3 - taps.ndim), *taps.shape)


def _words(numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(np.int32)


def _halves(layer: Layer) -> np.ndarray:
    return halves(_centered(layer))


def _packed_int8(tier: Tier, layer: Layer, zx: int, part: Part) -> np.ndarray:
    """What a kernel reads of its channels."""
    own = slice(part.start, part.start + part.channels)
    weights = _centered(layer)[..., own]
    bias = folded_bias(weights.reshape(-1, part.channels).T, layer.bias[own], zx)
    return pack_depthwise_int8(part.name, part.params, tier, weights, bias, layer.multipliers[own])


def _quantized_rows(e: Emit, node: Node, found: Layer, where: Window, rows: Rows, part: Part) -> None:
    """One kernel's part of the channels."""
    name, params, zx = part.name, part.params, zero_point(node.x)
    shapes = depthwise_int8_args(e.tier, name, params, where, e.threads)
    args: dict[str, Arg] = {
        **shapes, "x": _further(rows.x, part.start), "ldx": rows.ldx, "y": _further(rows.y, part.start),
        "ldy": rows.ldy, **found.stored,
    }  # fmt: skip
    if name == "depthwise_int8_any":
        args |= {
            "weights": e.packed(_halves, found), "bias": e.packed(_words, found.bias),
            "multipliers": e.packed(in_order, found.multipliers), "multiplier": last(node.out) // last(node.x),
        }  # fmt: skip
    else:
        args["packed"] = e.packed(_packed_int8, e.tier, found, zx, part)
    if name in ("depthwise_int8", "depthwise_int8_window"):
        # Rounded up, so that layers share it.
        blank = 1 << (fill_bytes(e.tier, params, rows.ldx) - 1).bit_length()
        args["fill"] = e.packed(_filled, blank, zx)
    else:
        args["zero_x"] = zx
    if name == "depthwise_int8_across":
        args["scratch"] = e.scratch(shapes["scratch_bytes"] * e.threads)
    e.kernel(name, params, args, share=rows.count / row_count(node.out) * part.channels / last(node.out))


def _filled(count: int, number: int) -> np.ndarray:
    return np.full(count, number, np.uint8)


def _further(place: Ref, nbytes: int) -> Ref:
    return Ref(place.base, place.offset + nbytes)
