"""Candidates for f32 convolutions and dense layers on AMX tiles of bf16 or f16, where the precision allows them."""

from __future__ import annotations

from functools import partial

import numpy as np

from ....cpus import level_two
from ....freedoms import threshold
from ....ir import Node
from ....kernels.amx.pack_real import pack_real, scalable, splits
from ....kernels.amx.pick_real import pick_real, real_args, real_cycles
from ....kernels.gemm.pack import Arrangement, arranged
from ....kernels.gemm.pack_bf16 import balanced
from ....kernels.gemm.pick_conv import Geometry
from ....kernels.isa.tiers import Tier, multiplies_f16
from ...choose import Candidate
from ...layer import Layer, Reals
from ..emit import Rows
from ..epilogue import addend_item, epilogue
from ..registry import Emit
from .calls import part_of, tile_slots

Parts = tuple[int, str]
ROUNDED: Parts = (1, "bf16")
HALVES: Parts = (1, "f16")
PARTS = {"bfloat16": (ROUNDED,), "float16": (HALVES, (2, "bf16")), "float32": ((3, "bf16"),)}
"""By precision, what a number may become: two bf16 hold the bits of float16 and more, three all bits of f32."""
LEAST = {1: 16, 2: 16, 3: 32}
"""Rows, columns and products of a sum from which on several products of bf16, or one of f16, may be faster than f32's,
by planes."""
AFTER, MOST_AFTER = 0.1, 56e3
"""What three parts cost the steps behind them, of their own cycles and at most: for some 10 us after tiles of bf16,
products in vectors take 1.2 of their time (Granite Rapids), and layers in bands are some ten calls."""
SAVED = 1 / 6
"""Cycles that a result of two bytes, not four, saves where it is written and read: 0.19 of 1x1 8>160 at 80x80 (Granite
Rapids). Whether it will have two is not known yet; results that leave the network have four."""
FEW = 64
"""Rows below which f32's products are taken where weights leave the second-level cache: in three parts they are half as
much again to read, and nothing else takes the time."""


def is_large(g: Geometry, planes: int) -> bool:
    """Whether the model of tiles may be asked."""
    rows = g.images * g.out[0] * g.out[1] * g.out[2]
    streamed = planes == 3 and rows < FEW and 4 * g.groups * g.n * g.k > level_two()
    return min(rows, g.n, g.k) >= threshold("tiles_least", LEAST[planes]) and not streamed


def fits(parts: Parts, g: Geometry, weights: np.ndarray, tier: Tier) -> bool:
    """Whether tiles can multiply these weights [N, ...], and the model may be asked if they should."""
    large = is_large(g, parts[0])
    if parts == HALVES:
        return large and multiplies_f16(tier) and scalable(weights)
    return parts == ROUNDED or (large and splits(weights))


def times(parts: Parts, g: Geometry) -> list[float]:
    """Cycles on one thread and on two."""
    one = real_cycles(g, *parts)
    if parts[0] == 3:
        one += min(AFTER * one, MOST_AFTER)
    one *= threshold("tiles_least", LEAST[parts[0]]) > 1
    return [one, one / 2]


def _suits(parts: Parts, layer: Layer[Reals], tier: Tier) -> bool:
    return layer.form != "depthwise" and fits(parts, layer.merged(tier)[0], layer.numbers.weights, tier)


def _times(parts: Parts, layer: Layer[Reals], tier: Tier) -> list[float]:
    saved = SAVED * layer.pixels * layer.n if parts == ROUNDED else 0.0
    g = layer.merged(tier)[0]._replace(item=2 if layer.narrow else 4)
    return [cycles - saved for cycles in times(parts, g)]


def _emit(parts: Parts, e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    g, how = layer.merged(e.tier)
    g = g._replace(item=node.x.type.itemsize)
    choice = pick_real(g, e.threads, *parts, level_two())
    panels = e.packed(_panels, *layer.numbers, how, choice.runs, choice.run, choice.params["nt"], parts)
    items = {"y_item": node.out.type.itemsize, "addend_item": addend_item(node)}
    slots = {**tile_slots(e, choice, rows, layer.ldy, panels), **items, **epilogue(e, node, rows.start, long=True)}
    args = real_args(choice, **slots)
    e.kernel("amx_real", choice.params, args, share=part_of(e, layer.pixels))


def _panels(
    weights: np.ndarray, bias: np.ndarray | None, how: Arrangement, runs: int, run: int, nt: int, parts: Parts
) -> np.ndarray:
    own = arranged(balanced(weights) if parts == ROUNDED else weights, how)
    lines = own.reshape(how.merged, len(weights) // how.merged, runs, run, -1)
    return pack_real(lines, None if bias is None else bias.reshape(how.merged, -1), nt, *parts)


CANDIDATES: dict[str, tuple[Candidate[Layer[Reals]], ...]] = {
    precision: tuple(
        Candidate("amx_real", partial(_suits, parts), partial(_times, parts), partial(_emit, parts)) for parts in found
    )
    for precision, found in PARTS.items()
}
"""By precision."""
