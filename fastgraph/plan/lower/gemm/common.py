"""What the lowerings of products share: constant weights, rows of a result, a convolution's geometry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import merge_groups
from ....kernels.gemm.pack_int8 import pack_int8
from ....kernels.gemm.pick_conv import ConvPiece, Geometry, Triple, merge_factor
from ....kernels.gemm.pick_dot import DotPiece
from ....kernels.isa.tiers import Tier
from ...program import Ref
from ..quantized import folded_bias
from ..quantized_layer import Layer
from ..registry import Emit, is_f32, last, row_count
from ..spatial import three


class Parameters(NamedTuple):
    """A layer's constants in f32: weights [n, k...] and bias [n]."""

    weights: np.ndarray
    bias: np.ndarray | None


def parameters(node: Node) -> Parameters | None:
    """The constants of a layer that is all f32 and not empty; None: it isn't, or they are no constants."""
    w, b = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    if w is None or w.data is None or (b is not None and b.data is None):
        return None
    full = is_f32(node) and node.out.type.size > 0 and node.x.type.size > 0
    return Parameters(w.data, b.data if b is not None else None) if full else None


class Rows(NamedTuple):
    """`count` rows of a node's result from row `start` on: where they are read and written, and how far apart.

    A convolution's rows are pixels; x is where the first one is read.
    """

    x: Ref
    ldx: int
    y: Ref
    ldy: int
    start: int
    count: int  # type: ignore[assignment]  # instead of a tuple's method


def all_rows(e: Emit, node: Node) -> Rows:
    """The whole result, in its place."""
    return Rows(e.address(node.x), e.stride(node.x), e.address(node.out), e.stride(node.out), 0, row_count(node.out))


def is_depthwise(node: Node) -> bool:
    """Whether each output channel of a convolution sees one input channel."""
    return node.attrs["groups"] > 1 and node.attrs["groups"] == last(node.x)


def is_dense(node: Node) -> bool:
    """Whether a convolution is a dense layer of every pixel."""
    a, w = node.attrs, node.inputs[1]
    assert w is not None
    ones = all(v == 1 for v in (*w.type.dims[1:-1], *a["strides"], a["groups"]))
    return ones and not any(a["pads"])


def merge_narrow(tier: Tier, weights: np.ndarray, groups: int) -> tuple[np.ndarray, int]:
    """Weights of so few groups that the output channels of each fill a vector, with zeros among them; how many."""
    factor = merge_factor(tier, groups, weights.shape[0] // groups)
    return (merge_groups(weights, groups, factor) if factor > 1 else weights), groups // factor


def merge_narrow_stored(tier: Tier, weights: np.ndarray, zeros: np.ndarray, groups: int) -> tuple[np.ndarray, int]:
    """The same of s8 weights, where what isn't there stands for 0.0 by the zero point of its output channel."""
    zeros = zeros.reshape(-1, *[1] * (weights.ndim - 1))
    away, groups = merge_narrow(tier, weights - zeros, groups)
    return (away + zeros).astype(np.int8), groups


def geometry(
    node: Node, weights: Sequence[int], groups: int, stride: int, item: int = 4, padded: Triple | None = None
) -> Geometry:
    """A convolution in three dimensions, leading ones added; weights: their shape [n, k..., c].

    stride: elements of `item` bytes from pixel to pixel of x; padded: the extents of x when it has its padding.
    """
    a, x, out = node.attrs, node.x.type.dims, node.out.type.dims
    size = padded or three(x[1:-1])
    line, plane = stride * size[2], stride * size[1] * size[2]
    return Geometry(
        images=x[0], groups=groups, c=weights[-1], n=weights[0] // groups, size=size, kernel=three(weights[1:-1]),
        out=three(out[1:-1]), x_strides=(plane * size[0], plane, line, stride), strides=three(a["strides"]),
        dilations=three(a["dilations"]), pads=(0, 0, 0) if padded else three(a["pads"][: len(x) - 2], 0), item=item,
    )  # fmt: skip


def panels(
    tier: Tier, layer: Layer, zero: int, piece: DotPiece | ConvPiece, run: int, groups: int = 1, chains: int = 1
) -> np.ndarray:
    """A quantized layer's weights for a piece's columns of each group, packed. zero: the u8 that stands for 0.0 in x;
    run, chains: as of pack_int8.
    """
    part = slice(piece.start, piece.start + piece.columns)
    weights = layer.weights.reshape(groups, len(layer.weights) // groups, -1)[:, part]
    bias, multipliers, zeros = (v.reshape(groups, -1)[:, part] for v in (layer.bias, layer.multipliers, layer.zeros))
    start = np.stack([folded_bias(w, b, zero, z) for w, b, z in zip(weights, bias, zeros, strict=True)])
    minus = -zeros.astype(np.int32) if layer.rowsum else None
    return pack_int8(tier, weights, start, multipliers, piece.nv, run, layer.out, minus, chains=chains)
