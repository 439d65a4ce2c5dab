"""Layers of bytes on AMX tiles, which dense.py and conv.py choose, on tiers that have them, where `suits` says so."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....kernels.amx import pick
from ....kernels.amx.pack import pack_amx
from ....kernels.gemm.pick_conv import Geometry
from ...program import Ref
from ..quantized import folded_bias, zero_point
from ..quantized_layer import Layer
from ..registry import Emit, row_count
from .common import Rows


def suits(g: Geometry, layer: Layer) -> bool:
    """Whether the kernel does such layers (weights without zero points), and it pays."""
    return not layer.rowsum and pick.worth_tiles(g)


def dense_geometry(rows: Rows, layer: Layer) -> Geometry:
    """Rows of a dense layer as a convolution."""
    return pick.dense(rows.count, len(layer.weights), layer.weights[0].size, rows.ldx)


def dense(e: Emit, node: Node, layer: Layer, rows: Rows) -> None:
    """Some rows of a dense layer."""
    share = rows.count / row_count(node.out)
    _emit(e, node, layer, dense_geometry(rows, layer), rows.x, rows.y, rows.ldy, share)


def conv(e: Emit, node: Node, layer: Layer, g: Geometry) -> None:
    """A convolution of this geometry."""
    _emit(e, node, layer, g, e.address(node.x), e.address(node.out), e.stride(node.out), 1.0)


def _emit(e: Emit, node: Node, layer: Layer, g: Geometry, x: Ref, y: Ref, ldy: int, share: float) -> None:
    choice, zero = pick.pick_amx(g, e.threads, layer.out), zero_point(node.x)

    def packed() -> np.ndarray:
        weights = layer.weights.reshape(g.groups * g.n, -1)
        start = folded_bias(weights, layer.bias, zero)
        lines = weights.reshape(g.groups, g.n, choice.runs, choice.length)
        columns = (g.groups, g.n)
        return pack_amx(lines, start.reshape(columns), layer.multipliers.reshape(columns), choice.nt)

    key = (node, choice.nt, choice.runs, choice.length)
    args = pick.amx_args(
        choice, zero, x=x, w=e.packed(key, packed), y=y, ldy=ldy, table=e.constant(choice.table),
        config=e.constant(choice.config), scratch=e.scratch(choice.scratch * e.threads), **layer.stored,
    )  # fmt: skip
    e.kernel("amx_conv", choice.params, args, share=share)
