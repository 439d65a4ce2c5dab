"""Transposed convolution of u8 by constant s8 weights: exact i32 products, summed where they overlap, requantised."""

from __future__ import annotations

import numpy as np

from ...ir import Node
from ...kernels.gemm.pack_int8 import pack_int8
from ...kernels.gemm.pick_conv_transpose import Transposed, col2im_args, products_args, tap_weights
from ...kernels.gemm.pick_int8 import pick_dot_int8
from ..program import Ref
from .gemm.conv_transpose import transposed
from .quantized import folded_bias, zero_point
from .quantized_layer import Layer, is_quantized_layer, layer
from .registry import Emit, lowers


def _quantized(node: Node) -> tuple[Transposed, Layer] | None:
    g = transposed(node) if is_quantized_layer(node) else None
    return (g, layer(node)) if g else None


@lowers("conv_transpose", match=_quantized, strided_in=True, strided_out=True)
def conv_transpose(e: Emit, node: Node, plan: tuple[Transposed, Layer]) -> None:
    g, found = plan
    products = e.scratch(g.products)
    _dots(e, node, found, g, products)
    args = col2im_args(
        g, t=products, y=e.address(node.out), ldy=e.stride(node.out),
        bias=e.constant(found.bias.astype(np.int32)), multipliers=e.constant(found.multipliers),
        scratch=e.scratch(g.scratch * e.threads), **found.stored,
    )  # fmt: skip
    e.kernel("col2im_int8", {"out": found.out}, args)


def _dots(e: Emit, node: Node, found: Layer, g: Transposed, products: Ref) -> None:
    """The products of every pixel with every tap, (x - zero point) * (w - zero point), as i32."""
    matrix = tap_weights(found.weights, g)
    taps = g.columns // g.n
    zeros = np.broadcast_to(found.zeros.reshape(g.groups, 1, g.n), (g.groups, taps, g.n)).reshape(g.groups, -1)
    for piece in pick_dot_int8(e.tier, g.pixels, g.columns, g.c, "i32", found.rowsum, g.groups, e.threads):
        part = slice(piece.start, piece.start + piece.columns)
        none, ones = np.zeros(piece.columns, np.int64), np.ones((g.groups, piece.columns), np.float32)
        both = zip(matrix[:, part], zeros[:, part], strict=True)
        start = [folded_bias(w, none, zero_point(node.x), z) for w, z in both]
        minus = -zeros[:, part].astype(np.int32) if found.rowsum else None
        packed = pack_int8(e.tier, matrix[:, part], np.stack(start), ones, piece.nv, g.c, "i32", minus)
        args = products_args(
            piece, g, a=e.address(node.x), lda=e.stride(node.x), k=-(-g.c // 4), b=e.constant(packed),
            b_stride=packed[0].size // 4, c=products, zero_point=0, low=0, high=0,
        )  # fmt: skip
        e.kernel("dot_int8", piece.params, args, share=piece.columns / g.columns)
