"""The candidate for layers of bytes whose results are f32, on AMX tiles: see kernels/amx/amx_dynamic.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import Arrangement
from ...choose import Candidate
from ...layer import Integers, Layer
from ...program import Ref
from ...quantized import folded_bias
from ..emit import Rows
from ..epilogue import epilogue
from ..registry import Emit
from .calls import part_of
from .layer_int8 import all_lines, tile_cycles, tile_lines, tiles_suit


def multiply(e: Emit, node: Node, layer: Layer[Integers], rows: Rows, ranges: Ref, **steps: int) -> None:
    """Write the call; steps: the slots per_image and per_row of the ranges."""
    from ....kernels.amx.pick_amx import amx_args, pick_amx_dynamic

    g, how = layer.merged(e.tier)
    choice = all_lines(e, layer.numbers, how, pick_amx_dynamic(g, e.threads))
    panels = e.packed(_panels, layer.numbers, how, choice.runs, choice.run)
    ends: dict[str, Any] = {"x": rows.x, "w": panels, "y": rows.y, "ldy": layer.ldy, "ranges": ranges, **steps}
    ends |= {"offsets": choice.table, "config": choice.config, "scratch": e.scratch(choice.scratch * e.threads)}
    args = amx_args(choice, layer.zero, **ends, **epilogue(e, node, rows.start))
    e.kernel("amx_dynamic", choice.params, args, share=part_of(e, layer.pixels))


def _panels(numbers: Integers, how: Arrangement, runs: int, length: int) -> np.ndarray:
    from ....kernels.amx.pack_amx import pack_amx
    from ....kernels.amx.rows import DYNAMIC_NT

    weights = numbers.arranged(how).weights.reshape(len(numbers.weights), -1)
    sums = folded_bias(weights, np.zeros(len(weights), np.int64), -1, numbers.zeros)
    head = [v.reshape(how.merged, -1) for v in (sums, numbers.multipliers, numbers.bias)]
    return pack_amx(tile_lines(numbers, how, runs, length)[0], head, DYNAMIC_NT, "words")


def candidate(emit: Any) -> Candidate[Layer[Integers]]:
    """With the caller's way to find the ranges."""
    return Candidate("amx_dynamic", tiles_suit, tile_cycles, emit)
