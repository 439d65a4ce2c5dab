"""Pools between transposes to channels last and back: each plane is a map of one channel, as it lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..ir import Node
from ..ops.shape import permutation
from ..ops.window import is_near
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep


class Figures(NamedTuple):
    """Pixels that a kernel takes together, and, in one unit, the time for each of them, filled or not, for both ends of
    a row in maxima and in averages, for a pixel by a kernel that has channels in lanes, and for one by both
    transposes."""

    lanes: int
    pixel: float
    ends: dict[str, float]
    channels: float
    turned: float


FIGURES = {
    16: Figures(16, 11, {"max_pool": 108, "average_pool": 108}, 10, 18),
    8: Figures(8, 6.5, {"max_pool": 92, "average_pool": 105}, 10, 10),
}
"""By the f32 of a vector; those of 16 also where they were not measured. Where they say that it pays, one to four pools
in a row of 32 channels and 13 to 56 columns take 0.54 to 1.12 of the time on AVX-512 (mean 0.78); on AVX2, of 64
channels and 8 to 112 columns, maxima take 0.4 to 1.05 (mean 0.70), averages of 8 to 40 columns 0.6 to 0.92.
"""
SQUARES = ((2, 2), (3, 3), (5, 5))
"""Windows with a body of their own."""


@rule("planes", "transpose")
def planes(g: Sweep, node: Node) -> bool:
    """Given ``y = transpose(max_pool(transpose(x, 0, 2, 3, 1)), 0, 3, 1, 2)``; result
    ``y = reshape(max_pool(reshape(x, n * c, h, w, 1)), n, c, h, w)``, and alike for several pools in a row."""
    pools, value = list[Node](), node.x
    if len(node.out.type.dims) != 4 or permutation(node) != (0, 3, 1, 2):
        return False
    while (pool := g.sole_maker(value)) is not None and _suits(pool):
        pools.append(pool)
        value = pool.x
    turn = g.made_by(value, "transpose")
    if turn is None or permutation(turn) != (0, 2, 3, 1) or not _pays(g, pools, node.out.type.dims[-1]):
        return False
    n, c, *size = turn.x.type.dims
    y = g.shape(turn.x, n * c, *size, 1)
    for pool in reversed(pools):
        g.drop(pool)
        shape = (n * c, *pool.out.type.dims[1:-1], 1)
        y = g(pool.op, y, type=pool.out.type.with_shape(shape), **pool.attrs)
    return g.becomes(g.shape(y, *node.out.type.dims))


def _pays(g: Sweep, pools: Sequence[Node], width: int) -> bool:
    """Whether pools in a row, of maps so wide, are faster without transposes; if there are any."""
    f = FIGURES.get(g.graph.lanes, FIGURES[16])
    across = f.pixel * -(-width // f.lanes) * f.lanes
    more = sum(across + f.ends[pool.op] - f.channels * width for pool in pools)
    return bool(pools) and more <= f.turned * width


def _suits(pool: Node) -> bool:
    """Whether it is one for which a kernel has a body with pixels in lanes."""
    if pool.op not in ("max_pool", "average_pool") or len(pool.inputs) + len(pool.outputs) > 2 or "chain" in pool.attrs:
        return False
    a = pool.attrs
    near = {*a["strides"], *a["dilations"]} == {1} and is_near(pool)
    return near and tuple(a["kernel_shape"]) in SQUARES and known(pool.x, pool.out, dtypes=[np.float32])
