"""Transposed convolution: every input pixel times every tap's weights, then the products summed where they overlap."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import pack_weights
from ....kernels.gemm.pick_conv_transpose import Transposed, col2im_args, pick_products, products_args, tap_weights
from ....ops.conv import transposed_window
from ..extras import chain_of, extra_slots
from ..registry import Emit, last, lowers
from ..spatial import is_near, three
from .common import Parameters, parameters


def transposed(node: Node) -> Transposed | None:
    """The convolution in three dimensions, leading ones added; None when it has more, or large numbers."""
    x, out, groups, weights = node.x.type.dims, node.out.type.dims, node.attrs["groups"], node.inputs[1]
    assert weights is not None
    if len(x) > 5 or not is_near(node):
        return None
    kernel = weights.type.dims[1:-1]
    begin, _, a = transposed_window(node, x[1:-1], kernel)
    return Transposed(
        images=x[0], groups=groups, c=weights.type.dims[-1], n=out[-1] // groups, size=three(x[1:-1]),
        kernel=three(kernel), out=three(out[1:-1]), strides=three(a["strides"]), dilations=three(a["dilations"]),
        pads=three(begin, 0),
    )  # fmt: skip


def _f32(node: Node) -> tuple[Transposed, Parameters] | None:
    found = parameters(node)
    g = transposed(node) if found else None
    return (g, found) if g and found else None


@lowers("conv_transpose", match=_f32, strided_in=True, strided_out=True, in_place=True)
def conv_transpose(e: Emit, node: Node, plan: tuple[Transposed, Parameters]) -> None:
    g, (weights, bias) = plan
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
    chain, kinds = chain_of(node)
    e.kernel("col2im", {"chain": chain, "extras": kinds}, args, extra_slots(e, node))
