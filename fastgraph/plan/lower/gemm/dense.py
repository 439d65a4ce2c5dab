"""Dense layers, and convolutions that are one for every pixel."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import pack_weights
from ....kernels.gemm.pick_dot import dot_args, pick_dot
from ..extras import chain_of, extra_slots
from ..registry import Emit, lowers, row_count
from .common import Parameters, Rows, all_rows, is_dense, parameters


def _f32(node: Node) -> Parameters | None:
    found = parameters(node)
    return found if found and (node.op == "dense" or is_dense(node)) else None


@lowers("dense", "conv", match=_f32, strided_in=True, strided_out=True, in_place=True)
def dense(e: Emit, node: Node, plan: Parameters) -> None:
    dense_rows(e, node, plan, all_rows(e, node))


def dense_rows(e: Emit, node: Node, plan: Parameters, rows: Rows) -> None:
    """Some rows of the result: x times weights, with bias and chain."""
    weights, bias = plan.weights.reshape(plan.weights.shape[0], -1), plan.bias
    chain, kinds = chain_of(node)
    n, k = weights.shape
    images = node.out.type.dims[0] if "image" in kinds else 1
    m = rows.count // images
    extras = extra_slots(e, node, rows.start)
    for piece in pick_dot(e.tier, m, n, k, images, e.threads, chain, kinds, rows.ldx):
        part = slice(piece.start, piece.start + piece.columns)

        def packed(part: slice = part, nv: int = piece.nv) -> np.ndarray:
            return pack_weights(weights[part], None if bias is None else bias[part], nv, e.tier.lanes)

        key = (*node.inputs[1:3], piece.start, piece.columns, piece.nv)
        args = dot_args(
            piece, a=rows.x, lda=rows.ldx, b=e.packed(key, packed), c=rows.y, ldc=rows.ldy, m=m, k=k, batch=images,
            a_stride=m * rows.ldx, c_stride=m * rows.ldy,
        )  # fmt: skip
        e.kernel("dot", piece.params, args, extras, rows.count / row_count(node.out) * piece.columns / n)
