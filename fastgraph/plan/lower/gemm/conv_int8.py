"""Convolutions of bytes by constant s8 weights that aren't depthwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import merge_groups
from ....kernels.gemm.pack_int8 import widen
from ....kernels.gemm.pick_conv import conv_args, merge_factor
from ....kernels.gemm.pick_int8 import pick_conv_int8, pixels_together, widened, word_of
from ....kernels.isa.tiers import Tier
from ..product import all_rows, geometry, is_dense, is_depthwise
from ..quantized import zero_point
from ..quantized_layer import Layer, quantized_layer
from ..registry import Emit, lowers
from ..spatial import is_near
from . import amx
from .dense_int8 import dense_rows, panels


def _convolves(node: Node) -> Layer | None:
    fits = node.x.type.concrete and len(node.x.type.dims) <= 5 and is_near(node) and not is_depthwise(node)
    return quantized_layer(node) if fits else None


@lowers("conv", match=_convolves, strided_in=True, strided_out=True)
def conv(e: Emit, node: Node, layer: Layer) -> None:
    if is_dense(node):
        dense_rows(e, node, layer, all_rows(e, node))
        return
    layer, groups = _merged(e.tier, layer, node.attrs["groups"])
    g = replace(geometry(e, node, layer.weights, groups), item=1)
    if amx.suits(e, g, layer):
        amx.conv(e, node, layer, g)
        return
    ldy, zero = e.stride(node.out), zero_point(node.x)
    if ldy == g.n and (together := pixels_together(e.tier, g)) > 1:
        layer, g, ldy = _widened(layer, together, g.strides[2]), widened(g, together), together * ldy
    g, pieces = pick_conv_int8(e.tier, g, layer.out, layer.rowsum, e.threads)
    for piece in pieces:
        args = conv_args(
            piece, x=e.address(node.x), w=e.constant(panels(e.tier, layer, zero, piece, g.run, groups)),
            y=e.address(node.out), ldy=ldy, table=e.constant(piece.table), fill=word_of(zero),
            scratch=e.scratch(piece.scratch * e.threads), **layer.stored,
        )  # fmt: skip
        e.kernel("conv_int8", piece.params, args, share=piece.columns / g.n)


def _merged(tier: Tier, layer: Layer, groups: int) -> tuple[Layer, int]:
    """The layer with narrow groups merged, and how many there are."""
    factor = merge_factor(tier, groups, len(layer.weights) // groups) if groups > 1 else 1
    if factor == 1:
        return layer, groups
    # What isn't there stands for 0.0: the weights' zero point.
    zeros = layer.zeros.reshape(-1, *[1] * (layer.weights.ndim - 1))
    weights = merge_groups(layer.weights - zeros, groups, factor) + zeros
    return replace(layer, weights=weights.astype(np.int8)), groups // factor


def _widened(layer: Layer, factor: int, stride: int) -> Layer:
    """The layer for `factor` pixels of a row at once."""
    zeros, bias, multipliers = (np.tile(v, factor) for v in (layer.zeros, layer.bias, layer.multipliers))
    weights = widen(layer.weights, factor, stride, layer.zeros)
    return replace(layer, weights=weights, zeros=zeros, bias=bias, multipliers=multipliers)
