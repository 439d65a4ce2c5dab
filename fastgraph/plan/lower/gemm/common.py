"""What the lowerings of products share: constant weights, rows of a result, a convolution's geometry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import Arrangement, arranged
from ....kernels.gemm.pack_int8 import Head, pack_int8
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


def merge_narrow(tier: Tier, weights: np.ndarray, groups: int) -> tuple[Arrangement, tuple[int, ...]]:
    """So few groups that the output channels of each fill a vector; the shape of their weights."""
    how = Arrangement(groups, merge_factor(tier, groups, weights.shape[0] // groups))
    return how, (*weights.shape[:-1], weights.shape[-1] * how.factor)


class Columns(NamedTuple):
    """Output channels of each group that are packed together, in panels of nv vectors."""

    start: int
    columns: int
    nv: int

    @property
    def part(self) -> slice:
        return slice(self.start, self.start + self.columns)


def columns_of(piece: DotPiece | ConvPiece) -> Columns:
    """Those that a call of a kernel is for."""
    return Columns(piece.start, piece.columns, piece.nv)


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


def arranged_layer(layer: Layer, how: Arrangement) -> Layer:
    """The layer for several groups as one, and for some pixels of a row at once."""
    zeros, bias, multipliers = (np.tile(v, how.together) for v in (layer.zeros, layer.bias, layer.multipliers))
    weights = arranged(layer.weights, how, layer.zeros)
    return layer._replace(weights=weights, zeros=zeros, bias=bias, multipliers=multipliers)


def panels(tier: Tier, layer: Layer, zero: int, columns: Columns, run: int, groups: int, chains: int) -> np.ndarray:
    """A quantized layer's weights for these columns of each group, packed. zero: the u8 that stands for 0.0 in x;
    run, chains: as of pack_int8.
    """
    part = columns.part
    weights = layer.weights.reshape(groups, len(layer.weights) // groups, -1)[:, part]
    bias, multipliers, zeros = (v.reshape(groups, -1)[:, part] for v in (layer.bias, layer.multipliers, layer.zeros))
    start = np.stack([folded_bias(w, b, zero, z) for w, b, z in zip(weights, bias, zeros, strict=True)])
    minus = -zeros.astype(np.int32) if layer.rowsum else None
    return pack_int8(tier, weights, Head(start, multipliers, minus), columns.nv, run, layer.out, chains)
