"""Depthwise convolution in f32, in which each output channel sees one input channel: its candidates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node
from ....kernels.isa.tiers import Tier
from ....kernels.window.pick import depthwise_any, depthwise_cycles, depthwise_tiles, window_args
from ...choose import Candidate
from ...layer import Layer, Reals, by_tap
from ..emit import Rows, in_order
from ..epilogue import epilogue
from ..registry import Emit, Slot, row_count


def _in_tiles(layer: Layer[Reals], tier: Tier) -> dict[str, Any] | None:
    single = layer.form == "depthwise" and layer.n == layer.inputs
    return depthwise_tiles(tier, layer.window) if single else None


def _tiles(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    params = _in_tiles(layer, e.tier)
    assert params is not None
    _depthwise(e, node, layer, rows, "depthwise", params)


def _any(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    multiplier = layer.n // layer.inputs
    params = depthwise_any(e.tier, layer.window, multiplier)
    _depthwise(e, node, layer, rows, "depthwise_any", params, multiplier=multiplier)


def _depthwise(
    e: Emit, node: Node, layer: Layer[Reals], rows: Rows, kernel: str, params: dict[str, Any], **own: Slot
) -> None:  # fmt: skip
    weights, bias = layer.numbers
    end = epilogue(e, node, rows.start, apart=True, long=True)
    args: dict[str, Slot] = {
        **window_args(e.tier, kernel, params, layer.window, e.threads, walked=end["walk"] != 0), **end, **own,
        "x": rows.x, "ldx": layer.ldx, "y": rows.y, "ldy": layer.ldy, "weights": e.packed(by_tap, weights),
        "bias": e.packed(_zeros, len(weights)) if bias is None else e.packed(in_order, bias),
    }  # fmt: skip
    e.kernel(kernel, params, args, share=layer.pixels / row_count(node.out))


def _zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.float32)


DEPTHWISE: tuple[Candidate[Layer[Reals]], ...] = (
    Candidate(
        "depthwise_any", lambda layer, tier: layer.form == "depthwise",
        lambda layer, tier: [depthwise_cycles(tier, layer.window, tiles=False)], _any,
    ),
    Candidate(
        "depthwise", lambda layer, tier: _in_tiles(layer, tier) is not None,
        lambda layer, tier: [depthwise_cycles(tier, layer.window, tiles=True)], _tiles,
    ),
)  # fmt: skip
