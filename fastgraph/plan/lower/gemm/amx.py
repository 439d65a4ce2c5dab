"""Layers of bytes on AMX tiles, which dense.py and conv.py choose, on tiers that have them, where `suits` says so."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....kernels.amx.pack_amx import pack_amx
from ....kernels.amx.pick_amx import amx_args, pick_amx, worth_tiles
from ....kernels.amx.pick_amx import dense as as_convolution
from ....kernels.gemm.pack import Arrangement, arranged
from ....kernels.gemm.pick_conv import Geometry
from ..quantized import folded_bias, zero_point
from ..quantized_layer import Layer
from ..registry import Emit, row_count
from .common import Rows, all_rows


def suits(g: Geometry, layer: Layer) -> bool:
    """Whether the kernel does such layers (weights without zero points), and it pays."""
    return not layer.rowsum and worth_tiles(g)


def dense_geometry(rows: Rows, layer: Layer) -> Geometry:
    """Rows of a dense layer as a convolution."""
    return as_convolution(rows.count, len(layer.weights), layer.weights[0].size, rows.ldx)


def dense(e: Emit, node: Node, layer: Layer, rows: Rows) -> None:
    """Some rows of a dense layer."""
    _emit(e, node, layer, Arrangement(), dense_geometry(rows, layer), rows)


def conv(e: Emit, node: Node, layer: Layer, how: Arrangement, g: Geometry) -> None:
    """A convolution of this geometry, that of its weights arranged so."""
    _emit(e, node, layer, how, g, all_rows(e, node))


def _emit(e: Emit, node: Node, layer: Layer, how: Arrangement, g: Geometry, rows: Rows) -> None:
    choice, zero = pick_amx(g, e.threads, layer.out), zero_point(node.x)
    packed = e.packed(_panels, layer, how, zero, choice.runs, choice.length, choice.nt)
    args = amx_args(
        choice, zero, x=rows.x, w=packed, y=rows.y, ldy=rows.ldy, table=e.constant(choice.table),
        config=e.constant(choice.config), scratch=e.scratch(choice.scratch * e.threads), **layer.stored,
    )  # fmt: skip
    e.kernel("amx_conv", choice.params, args, share=rows.count / row_count(node.out))


def _panels(layer: Layer, how: Arrangement, zero: int, runs: int, length: int, nt: int) -> np.ndarray:
    weights = arranged(layer.weights, how).reshape(len(layer.weights), -1)
    start = folded_bias(weights, layer.bias, zero)
    lines = weights.reshape(how.merged, -1, runs, length)
    return pack_amx(lines, start.reshape(how.merged, -1), layer.multipliers.reshape(how.merged, -1), nt)
