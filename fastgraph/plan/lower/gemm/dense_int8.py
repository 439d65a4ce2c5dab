"""Dense layers of bytes: rows of activations times constant s8 weights."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack_int8 import pack_int8
from ....kernels.gemm.pick_conv import ConvPiece
from ....kernels.gemm.pick_dot import DotPiece, dot_args
from ....kernels.gemm.pick_int8 import chains, pick_dot_int8, row_args, row_params
from ....kernels.isa.tiers import Tier
from ..product import Rows, all_rows
from ..quantized import folded_bias, zero_point
from ..quantized_layer import Layer, quantized_layer
from ..registry import Arg, Emit, lowers, row_count
from . import amx


@lowers("dense", match=quantized_layer, strided_in=True, strided_out=True)
def dense(e: Emit, node: Node, layer: Layer) -> None:
    dense_rows(e, node, layer, all_rows(e, node))


def _by_columns(node: Node) -> Layer | None:
    """The layer that a product by a constant matrix is."""
    w = node.inputs[1]
    return quantized_layer(node, 1) if w is not None and w.data is not None and w.data.ndim == 2 else None


@lowers("matmul", match=_by_columns, strided_in=True, strided_out=True)
def matmul(e: Emit, node: Node, layer: Layer) -> None:
    dense_rows(e, node, layer, all_rows(e, node))


def dense_rows(e: Emit, node: Node, layer: Layer, rows: Rows) -> None:
    """Some rows of a dense layer, or of a convolution that is one."""
    signed = node.x.type.dtype == np.int8
    if not signed and amx.suits(e, amx.dense_geometry(rows, layer), layer):
        amx.dense(e, node, layer, rows)
        return
    n, k = len(layer.weights), layer.weights[0].size
    zero = zero_point(node.x) + 128 * signed
    for piece in pick_dot_int8(e.tier, rows.count, n, k, layer.out, layer.rowsum, 1, e.threads, rows.ldx):
        together = chains(piece.nv) if rows.count == 1 else 1

        def packed(piece: DotPiece = piece, together: int = together) -> np.ndarray:
            return panels(e.tier, layer, zero, piece, k, chains=together)

        operands: dict[str, Arg] = {
            "a": rows.x, "b": e.packed((node, piece.start, piece.columns, piece.nv, together), packed), "c": rows.y,
            **layer.stored,
        }  # fmt: skip
        share = rows.count / row_count(node.out) * piece.columns / n
        if rows.count == 1:
            e.kernel("row_int8", row_params(piece, signed), {**row_args(piece, k), **operands}, share=share)
        else:
            args = dot_args(piece, lda=rows.ldx, ldc=rows.ldy, m=rows.count, k=-(-k // 4), **operands)
            e.kernel("dot_int8", piece.params, args, share=share)


def panels(
    tier: Tier, layer: Layer, zero: int, piece: DotPiece | ConvPiece, run: int, groups: int = 1, chains: int = 1
) -> np.ndarray:
    """The weights of a piece's columns of each group, packed. zero: the u8 that stands for 0.0 in x; run, chains: as of
    pack_int8.
    """
    part = slice(piece.start, piece.start + piece.columns)
    weights = layer.weights.reshape(groups, len(layer.weights) // groups, -1)[:, part]
    bias, multipliers, zeros = (v.reshape(groups, -1)[:, part] for v in (layer.bias, layer.multipliers, layer.zeros))
    start = np.stack([folded_bias(w, b, zero, z) for w, b, z in zip(weights, bias, zeros, strict=True)])
    minus = -zeros.astype(np.int32) if layer.rowsum else None
    return pack_int8(tier, weights, start, multipliers, piece.nv, run, layer.out, minus, chains=chains)
