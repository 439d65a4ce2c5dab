"""Products of two activations, each a matrix or as many matrices as the other."""

from __future__ import annotations

from typing import Any

from ....ir import Node
from ....kernels.gemm.pack import pack_weights
from ....kernels.gemm.pick_dot import dot_args, pick_dot
from ..extras import chain_of, extra_slots
from ..registry import Arg, Emit, is_f32, lowers, row_count


def multiplies(node: Node) -> bool:
    """Both operands are matrices or equally many matrices; or the second is one matrix for all rows of the first."""
    if node.out.type.size == 0 or node.x.type.size == 0:
        return False
    a, b = node.x.type.dims, node.inputs[1].type.dims  # type: ignore[union-attr]
    return len(a) >= 2 and len(b) >= 2 and (a[:-2] == b[:-2] or len(b) == 2)


@lowers("matmul", match=lambda node: is_f32(node) and multiplies(node))
def matmul(e: Emit, node: Node, _: Any) -> None:
    """Packs the second operand, at build time when it is constant, then multiplies."""
    x, y, out = node.x, node.inputs[1], node.out
    assert y is not None
    k, n = y.type.dims[-2:]
    matrices = y.type.size // (k * n)
    (chain, kinds), lanes = chain_of(node), e.tier.lanes
    batch = out.type.dims[0] if "image" in kinds else matrices
    assert matrices in (1, batch)
    m = row_count(x) // batch
    extras = extra_slots(e, node, images=batch)
    for piece in pick_dot(e.tier, m, n, k, batch, e.threads, chain, kinds):
        panels = -(-piece.columns // (piece.nv * lanes)) * (1 + k) * piece.nv * lanes
        if y.data is not None:
            weights = y.data.reshape(matrices, k, n).transpose(0, 2, 1)[:, piece.start : piece.start + piece.columns]
            packed = e.constant(pack_weights(weights, None, piece.nv, lanes))
        else:
            packed = e.scratch(4 * matrices * panels)
            pack: dict[str, Arg] = {
                "b": e.address(y, 4 * piece.start), "ldb": n, "packed": packed, "n": piece.columns, "k": k,
                "batch": matrices, "b_stride": k * n,
            }  # fmt: skip
            e.kernel("pack_b", {"nv": piece.nv}, pack)
        args = dot_args(
            piece, a=e.address(x), lda=k, b=packed, c=e.address(out), ldc=n, m=m, k=k, batch=batch,
            a_stride=m * k, b_stride=panels if matrices > 1 else 0, c_stride=m * n,
        )  # fmt: skip
        e.kernel("dot", piece.params, args, extras, piece.columns / n)
