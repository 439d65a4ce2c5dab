"""Candidates for f32 convolutions and dense layers on AMX tiles of bf16, where the precision allows them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....cpus import level_two
from ....freedoms import threshold
from ....ir import Node
from ....kernels.amx.pack_real import pack_real, splits
from ....kernels.amx.pick_real import pick_real, real_args, real_cycles
from ....kernels.gemm.pack import Arrangement, arranged
from ....kernels.gemm.pack_bf16 import balanced
from ....kernels.isa.tiers import Tier
from ...choose import Candidate
from ...layer import Layer, Reals
from ..emit import Rows
from ..epilogue import addend_item, epilogue
from ..registry import Emit
from .calls import part_of

PLANES = {"bfloat16": 1, "float16": 2, "float32": 3}
"""By precision, the bf16 that a number becomes: two hold the bits of float16 and more, three all bits of f32."""
LEAST = 64
"""Rows, columns and products of a sum from which on several products of bf16 are faster than one of f32."""


def _suits(planes: int, layer: Layer[Reals], tier: Tier) -> bool:
    if layer.form == "depthwise":
        return False
    g, _ = layer.merged(tier)
    large = min(g.images * g.out[0] * g.out[1] * g.out[2], g.n, g.k) >= threshold("tiles_least", LEAST)
    return planes == 1 or (large and splits(layer.numbers.weights))


def _times(planes: int, layer: Layer[Reals], tier: Tier) -> list[float]:
    one = real_cycles(layer.merged(tier)[0], planes) * (threshold("tiles_least", LEAST) > 1)
    return [one, one / 2]


def _emit(planes: int, e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    g, how = layer.merged(e.tier)
    g = g._replace(item=node.x.type.itemsize)
    choice = pick_real(g, e.threads, planes, level_two())
    panels = e.packed(_panels, *layer.numbers, how, choice.runs, choice.run, choice.params["nt"], planes)
    ends: dict[str, Any] = {"x": rows.x, "w": panels, "y": rows.y, "ldy": layer.ldy}
    ends |= {"offsets": choice.table, "config": choice.config, "scratch": e.scratch(choice.scratch * e.threads)}
    ends |= {"y_item": node.out.type.itemsize, "addend_item": addend_item(node)}
    args = real_args(choice, **ends, **epilogue(e, node, rows.start, long=True))
    e.kernel("amx_real", choice.params, args, share=part_of(e, layer.pixels))


def _panels(
    weights: np.ndarray, bias: np.ndarray | None, how: Arrangement, runs: int, run: int, nt: int, planes: int
) -> np.ndarray:
    own = arranged(balanced(weights) if planes == 1 else weights, how)
    lines = own.reshape(how.merged, len(weights) // how.merged, runs, run, own.shape[-1])
    return pack_real(lines, None if bias is None else bias.reshape(how.merged, -1), nt, planes)


CANDIDATES: dict[str, tuple[Candidate[Layer[Reals]], ...]] = {
    precision: (Candidate("amx_real", partial(_suits, planes), partial(_times, planes), partial(_emit, planes)),)
    for precision, planes in PLANES.items()
}
"""By precision."""
