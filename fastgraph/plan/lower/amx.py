"""Quantised layers on AMX tiles, called by quantized_product's lowerings where `suits` says so."""

from __future__ import annotations

import numpy as np

from ...ir import Node
from ...kernels.amx.pack import pack_amx
from ...kernels.amx.pick import AmxChoice, amx_args, dense, pick_amx, worth_tiles
from ...kernels.gemm.pick_conv import Geometry
from ..program import Ref
from .gemm.common import Rows
from .quantized import folded_bias, zero_point
from .quantized_layer import Layer
from .registry import Emit, row_count


def suits(e: Emit, g: Geometry, found: Layer) -> bool:
    """Whether the tier has tiles, the kernel does such layers (weights without zero points), and it pays."""
    return e.tier.amx and found.out != "i32" and not found.rowsum and worth_tiles(g)


def dense_geometry(rows: Rows, found: Layer) -> Geometry:
    """Rows of a dense layer as a convolution."""
    n = found.weights.shape[0]
    return dense(rows.count, n, found.weights.size // n, rows.ldx)


def dot(e: Emit, node: Node, found: Layer, rows: Rows) -> None:
    """Rows of x times weights, with bias, requantised."""
    g = dense_geometry(rows, found)
    _emit(e, node, found, g, found.weights, rows.x, rows.y, rows.ldy, rows.count / row_count(node.out))


def conv(e: Emit, node: Node, found: Layer, g: Geometry, weights: np.ndarray) -> None:
    """A convolution; weights: those of `found`, narrow groups merged as g has them."""
    _emit(e, node, found, g, weights, e.address(node.x), e.address(node.out), e.stride(node.out), 1.0)


def _emit(
    e: Emit, node: Node, found: Layer, g: Geometry, weights: np.ndarray, x: Ref, y: Ref, ldy: int, share: float
) -> None:
    choice = pick_amx(g, e.threads, found.out)
    zx = zero_point(node.x)
    args = amx_args(
        choice, zx, x=x, w=e.packed((node, choice.nt), lambda: _packed(choice, g, found, weights, zx)), y=y, ldy=ldy,
        table=e.constant(choice.table), config=e.constant(choice.config),
        scratch=e.scratch(choice.scratch * e.threads), **found.stored,
    )  # fmt: skip
    e.kernel("amx_conv", choice.params, args, share=share)


def _packed(choice: AmxChoice, g: Geometry, found: Layer, weights: np.ndarray, zx: int) -> np.ndarray:
    flat = weights.reshape(g.groups * g.n, -1)
    start = folded_bias(flat, found.bias, zx).reshape(g.groups, g.n)
    lines = flat.reshape(g.groups, g.n, choice.runs, choice.length)
    return pack_amx(lines, start, found.multipliers.reshape(g.groups, g.n), choice.nt)
