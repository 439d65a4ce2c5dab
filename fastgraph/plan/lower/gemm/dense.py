"""Dense layers, convolutions that are one for every pixel, and products by a constant matrix of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import pack_weights
from ....kernels.gemm.pick_dot import Product, dot_args, pick_dot
from ....kernels.gemm.pick_int8 import chains, pick_dot_int8, row_args, row_params
from ..epilogue import epilogue
from ..extras import chain_of
from ..quantized import zero_point
from ..quantized_layer import Layer, quantized_layer
from ..registry import Arg, Emit, lowers, row_count
from .common import Columns, Parameters, Rows, all_rows, columns_of, is_dense, panels, parameters


def _f32(node: Node) -> Parameters | None:
    found = parameters(node)
    return found if found and (node.op == "dense" or is_dense(node)) else None


def _quantized(node: Node) -> Layer | None:
    w = node.inputs[1]
    if w is None or w.data is None or w.type.quant is None:
        return None
    if node.op == "matmul":
        return quantized_layer(node, 1) if w.data.ndim == 2 else None
    return quantized_layer(node) if node.op == "dense" or is_dense(node) else None


@lowers("dense", "conv", "matmul", match=_quantized, strided_in=True, strided_out=True)
@lowers("dense", "conv", match=_f32, strided_in=True, strided_out=True, in_place=True)
def dense(e: Emit, node: Node, plan: Parameters | Layer) -> None:
    dense_rows(e, node, plan, all_rows(e, node))


def dense_rows(e: Emit, node: Node, plan: Parameters | Layer, rows: Rows) -> None:
    """Some rows of the result: x times weights, with bias, and with the chain or rounded to bytes."""
    if isinstance(plan, Parameters):
        _f32_rows(e, node, plan, rows)
    else:
        _int8_rows(e, node, plan, rows)


def _f32_rows(e: Emit, node: Node, plan: Parameters, rows: Rows) -> None:
    weights, bias = plan.weights.reshape(plan.weights.shape[0], -1), plan.bias
    n, k = weights.shape
    images = node.out.type.dims[0] if "image" in chain_of(node)[1] else 1
    m = rows.count // images
    ending = epilogue(e, node, rows.start)
    for piece in pick_dot(e.tier, Product(m, n, k, images, rows.ldx), e.threads):
        packed = e.packed(_panels, weights, bias, columns_of(piece), e.tier.lanes, placed=True)
        args = dot_args(
            piece, a=rows.x, lda=rows.ldx, b=packed, c=rows.y, ldc=rows.ldy, m=m, k=k, batch=images,
            a_stride=m * rows.ldx, c_stride=m * rows.ldy, **ending,
        )  # fmt: skip
        e.kernel("dot", piece.params, args, share=rows.count / row_count(node.out) * piece.columns / n)


def _panels(weights: np.ndarray, bias: np.ndarray | None, columns: Columns, lanes: int, *, empty: Any) -> np.ndarray:
    own = None if bias is None else bias[columns.part]
    return pack_weights(weights[columns.part], own, columns.nv, lanes, empty=empty)


def _int8_rows(e: Emit, node: Node, layer: Layer, rows: Rows) -> None:
    signed = node.x.type.dtype == np.int8
    if e.tier.tiles and not signed:
        from . import amx

        if amx.suits(amx.dense_geometry(rows, layer), layer):
            amx.dense(e, node, layer, rows)
            return
    n, k = len(layer.weights), layer.weights[0].size
    zero = zero_point(node.x) + 128 * signed
    row = rows.count == 1
    for piece in pick_dot_int8(
        e.tier, Product(rows.count, n, k, 1, rows.ldx), layer.out, layer.rowsum, e.threads, row=row
    ):
        packed = e.packed(panels, e.tier, layer, zero, columns_of(piece), k, 1, chains(piece.nv) if row else 1)
        operands: dict[str, Arg] = {"a": rows.x, "b": packed, "c": rows.y, **layer.stored}
        share = rows.count / row_count(node.out) * piece.columns / n
        if row:
            e.kernel("row_int8", row_params(piece), {**row_args(piece, k, signed), **operands}, share=share)
        else:
            args = dot_args(piece, lda=rows.ldx, ldc=rows.ldy, m=rows.count, k=-(-k // 4), **operands)
            e.kernel("dot_int8", piece.params, args, share=share)
