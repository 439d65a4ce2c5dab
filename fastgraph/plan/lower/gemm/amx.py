"""Layers of bytes on tiers that have tile registers."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....kernels.amx.pack_amx import pack_amx
from ....kernels.amx.pick_amx import amx_args, pick_amx
from ....kernels.gemm.pack import Arrangement, arranged
from ...layer import Integers, Layer
from ...quantized import folded_bias
from ..emit import Rows
from ..registry import Emit
from .calls import part_of


def emit_amx(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    """A convolution, or rows of a dense layer, in tiles."""
    g, how = layer.merged(e.tier)
    choice = pick_amx(g, e.threads, layer.numbers.out)
    packed = e.packed(_panels, layer.numbers, how, layer.zero, choice.runs, choice.length, choice.nt)
    args = amx_args(
        choice, layer.zero, x=rows.x, w=packed, y=rows.y, ldy=layer.ldy, table=choice.table,
        config=choice.config, scratch=e.scratch(choice.scratch * e.threads), **layer.numbers.stored,
    )  # fmt: skip
    e.kernel("amx_conv", choice.params, args, share=part_of(node, layer))


def _panels(layer: Integers, how: Arrangement, zero: int, runs: int, length: int, nt: int) -> np.ndarray:
    weights = arranged(layer.weights, how).reshape(len(layer.weights), -1)
    start = folded_bias(weights, layer.bias, zero)
    lines = weights.reshape(how.merged, -1, runs, length)
    return pack_amx(lines, start.reshape(how.merged, -1), layer.multipliers.reshape(how.merged, -1), nt)
