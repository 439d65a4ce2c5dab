"""Sliding windows over u8 activations: depthwise convolution, pools, and sums and means over neighbouring axes."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ...ir import Node
from ...kernels.window.pick import Window
from ...kernels.window.pick_depthwise_int8 import (
    Part,
    depthwise_int8_record,
    fill_bytes,
    pack_depthwise_int8,
    plan_depthwise_int8,
    scratch_bytes,
)
from ...kernels.window.pick_pool_int8 import plan_pool_int8, pool_int8_record
from ..program import Ref
from .pointwise.reduce import reduced
from .product import Rows, all_rows, is_depthwise
from .quantized import bounds, clamps_only, folded_bias, per_tensor, quant, zero_point
from .quantized_layer import Layer, is_quantized_layer, layer
from .registry import Emit, last, lowers, row_count
from .window import is_near, window


def _convolves(node: Node) -> bool:
    return len(node.x.type.dims) <= 4 and is_near(node) and is_depthwise(node) and is_quantized_layer(node)


@lowers("conv", match=lambda node: node.x.type.concrete and _convolves(node), strided_in=True, strided_out=True)
def conv(e: Emit, node: Node, _: Any) -> None:
    depthwise(e, node, all_rows(e, node), window(node))


def depthwise(e: Emit, node: Node, rows: Rows, where: Window) -> None:
    """Each output channel sees one input channel; `where` is the window over the rows at hand."""
    found = layer(node)
    weights = np.moveaxis(found.weights[..., 0].astype(np.int64) - _spread(found.zeros, found.weights.ndim - 1), 0, -1)
    weights = weights.reshape(*where.kernel[1:], -1)
    fits = bool((weights == weights.astype(np.int8)).all())
    multiplier = last(node.out) // last(node.x)
    for part in plan_depthwise_int8(e.tier, where, rows.ldx, rows.ldy, fits, multiplier, found.out):
        _emit(e, node, rows, replace(where, channels=part.channels), part, found, weights)


def _emit(
    e: Emit, node: Node, rows: Rows, where: Window, part: Part, found: Layer, weights: np.ndarray
) -> None:
    """One kernel's part of the channels; weights: those of the layer, less their zero points."""
    name, params, zx = part.name, part.params, zero_point(node.x)
    own = slice(part.start, part.start + part.channels)

    def packed() -> np.ndarray:
        mine, bias = weights[..., own], found.bias[own]
        if name != "depthwise_int8_any":
            bias = folded_bias(mine.reshape(-1, part.channels).T, bias, zx)
        return pack_depthwise_int8(name, params, e.tier, mine, bias, found.multipliers[own])

    # Rounded up, so that layers share it.
    blank = 1 << (fill_bytes(name, params, rows.ldx) - 1).bit_length()
    each = scratch_bytes(name, params, where, e.tier)
    zero_y, low, high = found.stored.values()
    record = depthwise_int8_record(
        name, params, where, x=_further(rows.x, part.start), ldx=rows.ldx, y=_further(rows.y, part.start),
        ldy=rows.ldy, packed=e.packed((node, part.start, name, *params.items()), packed),
        fill=e.packed(("fill", zx, blank), lambda: np.full(blank, zx, np.uint8)),
        zero_x=zx, zero_y=zero_y, low=low, high=high, scratch=e.scratch(each * e.threads) if each else 0,
        scratch_bytes=each, threads=e.threads, tier=e.tier,
    )  # fmt: skip
    e.call(name, params, record, rows.count / row_count(node.out) * part.channels / last(node.out))


def _further(place: Ref, nbytes: int) -> Ref:
    return Ref(place.base, place.offset + nbytes)


def _spread(zeros: np.ndarray, rank: int) -> np.ndarray:
    return zeros.reshape(-1, *[1] * (rank - 1))


def _bytes(node: Node) -> bool:
    """Whether x and the only result are u8 with one scale each, not empty, and the chain only clamps."""
    if len(node.outputs) != 1 or not per_tensor(node.x, np.uint8) or not per_tensor(node.out, np.uint8):
        return False
    return node.x.type.size > 0 and node.out.type.size > 0 and clamps_only(node)


def _pools(node: Node) -> bool:
    if not _bytes(node) or len(node.x.type.dims) > 4 or not is_near(node):
        return False
    if not _sums_fit(node, prod(node.attrs["kernel_shape"])):
        return False
    return node.op == "average_pool" and node.attrs.get("ties") is None or quant(node.x) == quant(node.out)


def _sums_fit(node: Node, n: int) -> bool:
    """Whether the sum of n bytes, each less a zero point, is an int32, and what is next to a half stays."""
    return n <= (1 << 23 if node.attrs.get("ties") is None else 1 << 13)


@lowers("max_pool", "average_pool", match=_pools, strided_in=True, strided_out=True)
def pool(e: Emit, node: Node, _: Any) -> None:
    op = "max" if node.op == "max_pool" else "average"
    _pool(e, node, window(node), op, bool(node.attrs.get("count_include_pad", 0)), e.stride(node.x), e.stride(node.out))


def _pool(e: Emit, node: Node, where: Window, op: str, include_pad: bool, ldx: int, ldy: int) -> None:
    low, high = bounds(node)
    name, params = plan_pool_int8(e.tier, where, op)
    ratio, zero_x, zero_y = quant(node.x).scale[0] / quant(node.out).scale[0], zero_point(node.x), zero_point(node.out)
    if (ties := node.attrs.get("ties")) is not None:
        # Measured from there, sums that are a little greater than they are turn halves away from it, and no others.
        zero_x = zero_y = zero_x + round(ties / quant(node.x).scale[0])
        ratio = 1 + 2.0**-22
    record = pool_int8_record(
        where, x=e.address(node.x), ldx=ldx, y=e.address(node.out), ldy=ldy, ratio=ratio, zero_x=zero_x, zero_y=zero_y,
        low=low, high=high, include_pad=include_pad,
    )  # fmt: skip
    e.call(name, params, record)


def _reduces(node: Node) -> bool:
    shape = reduced(node) if _bytes(node) else None
    return shape is not None and _sums_fit(node, shape[1])


@lowers("reduce_mean", "reduce_sum", match=_reduces)
def reduce(e: Emit, node: Node, _: Any) -> None:
    """A window over all of the axes."""
    shape = reduced(node)
    assert shape is not None
    outer, n, inner = shape
    where = Window(images=outer, channels=inner, size=(1, 1, n), kernel=(1, 1, n), out=(1, 1, 1))
    _pool(e, node, where, "average" if node.op == "reduce_mean" else "sum", False, inner, inner)
