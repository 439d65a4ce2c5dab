"""Transposed convolution: every input pixel times every tap's weights, then the products summed where they overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Node
from ...kernels.gemm.pack import pack_weights
from ...kernels.gemm.pick_conv_transpose import Transposed, col2im_args, pick_products, products_args, tap_weights
from ...ops.conv import transposed_window
from .product import extra_kinds, extra_places, has_constants, parameters, slots
from .registry import Emit, last, lowers
from .spatial import is_near, three


def _transposes(node: Node) -> bool:
    return has_constants(node) and len(node.x.type.dims) <= 5 and is_near(node)


@lowers("conv_transpose", match=_transposes, strided_in=True, strided_out=True, in_place=True)
def conv_transpose(e: Emit, node: Node, _: Any) -> None:
    weights, bias = parameters(node)
    g = geometry(node, weights)
    products, matrix, lda = e.scratch(g.products), tap_weights(weights, g), e.stride(node.x)
    for piece in pick_products(e.tier, g, e.threads):
        part = slice(piece.start, piece.start + piece.columns)
        packed = pack_weights(matrix[:, part], None, piece.nv, e.tier.lanes)
        args = products_args(
            piece, g, a=e.address(node.x), lda=lda, k=g.c, b=e.constant(packed), b_stride=packed[0].size, c=products
        )
        e.kernel("dot", piece.params, args, share=piece.columns / g.columns)
    args = col2im_args(
        g, t=products, y=e.address(node.out), ldy=e.stride(node.out),
        bias=e.constant(np.zeros(last(node.out), np.float32) if bias is None else bias),
        scratch=e.scratch(g.scratch * e.threads),
    )  # fmt: skip
    params = {"chain": node.attrs.get("chain", ()), "extras": extra_kinds(node)}
    e.kernel("col2im", params, args, slots(extra_places(e, node)))


def geometry(node: Node, weights: np.ndarray) -> Transposed:
    """The convolution in three dimensions, leading ones added."""
    x, out, groups = node.x.type.dims, node.out.type.dims, node.attrs["groups"]
    begin, _, a = transposed_window(node, x[1:-1], weights.shape[1:-1])
    return Transposed(
        images=x[0], groups=groups, c=weights.shape[-1], n=out[-1] // groups, size=three(x[1:-1]),
        kernel=three(weights.shape[1:-1]), out=three(out[1:-1]), strides=three(a["strides"]),
        dilations=three(a["dilations"]), pads=three(begin, 0),
    )  # fmt: skip
