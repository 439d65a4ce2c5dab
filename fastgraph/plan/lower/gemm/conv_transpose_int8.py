"""Transposed convolution of bytes by constant s8 weights: exact i32 products, summed where they overlap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....ir import Node
from ....kernels.gemm.pick_conv_transpose import Transposed, col2im_args, products_args, tap_weights
from ....kernels.gemm.pick_int8 import pick_dot_int8
from ..quantized import zero_point
from ..quantized_layer import Layer, quantized_layer
from ..registry import Emit, lowers
from ..spatial import is_near
from ..transposed import geometry
from .dense_int8 import panels


def _transposes(node: Node) -> Layer | None:
    return quantized_layer(node) if len(node.x.type.dims) <= 5 and is_near(node) else None


@lowers("conv_transpose", match=_transposes, strided_in=True, strided_out=True)
def conv_transpose(e: Emit, node: Node, layer: Layer) -> None:
    g = geometry(node, layer.weights)
    taps, products = _taps(layer, g), e.scratch(g.products)
    for piece in pick_dot_int8(e.tier, g.pixels, g.columns, g.c, taps.out, taps.rowsum, g.groups, e.threads):
        packed = panels(e.tier, taps, zero_point(node.x), piece, g.c, g.groups)
        args = products_args(
            piece, g, a=e.address(node.x), lda=e.stride(node.x), k=-(-g.c // 4), b=e.constant(packed),
            b_stride=packed[0].size // 4, c=products, **taps.stored,
        )  # fmt: skip
        e.kernel("dot_int8", piece.params, args, share=piece.columns / g.columns)
    args = col2im_args(
        g, t=products, y=e.address(node.out), ldy=e.stride(node.out),
        bias=e.constant(layer.bias.astype(np.int32)), multipliers=e.constant(layer.multipliers),
        scratch=e.scratch(g.scratch * e.threads), **layer.stored,
    )  # fmt: skip
    e.kernel("col2im_int8", {"out": layer.out}, args)


def _taps(layer: Layer, g: Transposed) -> Layer:
    """The layer that gives the products of a pixel with every tap, (x - zero point) * (w - zero point), as i32."""
    columns, per_tap = g.groups * g.columns, (g.groups, g.columns // g.n, g.n)
    return replace(
        layer, weights=tap_weights(layer.weights, g).reshape(columns, g.c),
        zeros=np.broadcast_to(layer.zeros.reshape(g.groups, 1, g.n), per_tap).reshape(columns),
        bias=np.zeros(columns, np.int64), multipliers=np.ones(columns, np.float32), out="i32",
        stored=dict.fromkeys(layer.stored, 0),
    )  # fmt: skip
