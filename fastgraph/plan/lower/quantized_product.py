"""Matrix products of u8 activations with constant s8 weights: dense layers, 1x1 and other convolutions, matmul."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...ir import Node
from ...kernels.gemm.pack_int8 import pack_int8, widen
from ...kernels.gemm.pick_conv import conv_args
from ...kernels.gemm.pick_dot import dot_args
from ...kernels.gemm.pick_int8 import (
    chains,
    pick_conv_int8,
    pick_dot_int8,
    pixels_together,
    row_args,
    row_params,
    widened,
    word_of,
)
from . import amx
from .gemm.common import Rows, all_rows, geometry, is_dense, is_depthwise, merge_narrow
from .quantized import folded_bias, zero_point
from .quantized_layer import Layer, is_quantized_layer, layer
from .registry import Emit, lowers, row_count
from .spatial import is_near


def _convolves(node: Node) -> bool:
    return len(node.x.type.dims) <= 5 and is_near(node) and not is_depthwise(node) and is_quantized_layer(node)


@lowers("conv", match=lambda node: node.x.type.concrete and _convolves(node), strided_in=True, strided_out=True)
def conv(e: Emit, node: Node, _: Any) -> None:
    if is_dense(node):
        dot(e, node, layer(node), all_rows(e, node))
        return
    found = layer(node)
    weights, groups = found.weights, node.attrs["groups"]
    if groups > 1:
        # What isn't there stands for 0.0: the weights' zero point.
        zeros = found.zeros.reshape(-1, *[1] * (weights.ndim - 1))
        weights, groups = merge_narrow(e.tier, weights - zeros, groups)
        weights = (weights + zeros).astype(np.int8)
    g = geometry(node, weights.shape, groups, e.stride(node.x), item=1)
    if amx.suits(e, g, found):
        amx.conv(e, node, found, g, weights)
        return
    found, ldy = replace(found, weights=weights), e.stride(node.out)
    if ldy == g.n and (together := pixels_together(e.tier, g)) > 1:
        found = _widened(found, together, g.strides[2])
        g, ldy = widened(g, together), together * ldy
    groups = g.groups
    per_group = found.weights.reshape(groups, g.n, -1)
    zx = zero_point(node.x)
    start = folded_bias(per_group.reshape(groups * g.n, -1), found.bias, zx, found.zeros).reshape(groups, g.n)
    factors, zeros = found.multipliers.reshape(groups, g.n), found.zeros.reshape(groups, g.n)
    g, pieces = pick_conv_int8(e.tier, g, found.out, found.rowsum, e.threads)
    for piece in pieces:
        part = slice(piece.start, piece.start + piece.columns)
        minus = -zeros[:, part].astype(np.int32) if found.rowsum else None
        packed = pack_int8(
            e.tier, per_group[:, part], start[:, part], factors[:, part], piece.nv, g.run, found.out, minus
        )
        args = conv_args(
            piece, x=e.address(node.x), w=e.constant(packed), y=e.address(node.out), ldy=ldy, fill=word_of(zx),
            table=e.constant(piece.table), scratch=e.scratch(piece.scratch * e.threads), **found.stored,
        )  # fmt: skip
        e.kernel("conv_int8", piece.params, args, share=piece.columns / g.n)


def _widened(found: Layer, factor: int, stride: int) -> Layer:
    """The layer for `factor` pixels of a row at once."""

    def tiled(values: np.ndarray) -> np.ndarray:
        return np.tile(values, factor)

    return replace(
        found, weights=widen(found.weights, factor, stride, found.zeros), zeros=tiled(found.zeros),
        bias=tiled(found.bias), multipliers=tiled(found.multipliers),
    )  # fmt: skip


@lowers("dense", match=is_quantized_layer, strided_in=True, strided_out=True)
def dense(e: Emit, node: Node, _: Any) -> None:
    dot(e, node, layer(node), all_rows(e, node))


def _multiplies(node: Node) -> bool:
    w = node.inputs[1]
    return w is not None and w.data is not None and w.data.ndim == 2 and is_quantized_layer(node, 1)


@lowers("matmul", match=_multiplies, strided_in=True, strided_out=True)
def matmul(e: Emit, node: Node, _: Any) -> None:
    dot(e, node, layer(node, 1), all_rows(e, node))


def dot(e: Emit, node: Node, found: Layer, rows: Rows) -> None:
    """Rows of x times weights, with bias, requantised."""
    signed = node.x.type.dtype == np.int8
    if not signed and amx.suits(e, amx.dense_geometry(rows, found), found):
        amx.dot(e, node, found, rows)
        return
    weights = found.weights.reshape(found.weights.shape[0], -1)
    n, k = weights.shape
    zx = zero_point(node.x) + 128 * signed
    for piece in pick_dot_int8(e.tier, rows.count, n, k, found.out, found.rowsum, 1, e.threads, rows.ldx):
        part = slice(piece.start, piece.start + piece.columns)

        together = chains(piece.nv) if rows.count == 1 else 1

        def packed(part: slice = part, nv: int = piece.nv, together: int = together) -> np.ndarray:
            start = folded_bias(weights[part], found.bias[part], zx, found.zeros[part])[None]
            minus = -found.zeros[None, part].astype(np.int32) if found.rowsum else None
            factors = found.multipliers[None, part]
            return pack_int8(e.tier, weights[None, part], start, factors, nv, k, found.out, minus, chains=together)

        b = e.packed((node, piece.start, piece.columns, piece.nv, together), packed)
        share = rows.count / row_count(node.out) * piece.columns / n
        if rows.count == 1:
            row = {"a": rows.x, "b": b, "c": rows.y, **row_args(piece, k), **found.stored}
            e.kernel("row_int8", row_params(piece, signed), row, share=share)
            continue
        args = dot_args(
            piece, a=rows.x, lda=rows.ldx, b=b, c=rows.y, ldc=rows.ldy, m=rows.count, k=-(-k // 4), **found.stored
        )
        e.kernel("dot_int8", piece.params, args, share=share)
