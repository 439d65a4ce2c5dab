"""Pools between transposes to channels last and back: each plane is a map of one channel, as it lies."""

from __future__ import annotations

import numpy as np

from ..ir import Node
from ..ops.shape import permutation
from ..ops.window import is_near
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep

LANES, PIXELS, EDGES, CHANNELS, TURNED = 16, 11, 108, 10, 18
"""Pixels that a kernel takes together, and, in one unit, the time for each of them, filled or not, for both ends of a
row, whose vectors are masked, for a pixel by a kernel that has channels in lanes, and for one by both transposes.

No pass knows the tier, as its graph may be planned for several. Where this says that it pays, one to four pools in a
row of 32 channels and 13 to 56 columns take 0.54 to 1.12 of the time on AVX-512 (mean 0.78), and 0.57 to 1.21 on AVX2
(mean 0.87); there windows of 5 are the worst, on less than 30 columns.
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
    if turn is None or permutation(turn) != (0, 2, 3, 1) or not pools or not _pays(len(pools), node.out.type.dims[-1]):
        return False
    n, c, *size = turn.x.type.dims
    y = g.shape(turn.x, n * c, *size, 1)
    for pool in reversed(pools):
        g.drop(pool)
        shape = (n * c, *pool.out.type.dims[1:-1], 1)
        y = g(pool.op, y, type=pool.out.type.with_shape(shape), **pool.attrs)
    return g.becomes(g.shape(y, *node.out.type.dims))


def _pays(pools: int, width: int) -> bool:
    """Whether so many pools in a row, of maps so wide, are faster without transposes."""
    across = PIXELS * -(-width // LANES) * LANES + EDGES
    return pools * (across - CHANNELS * width) <= TURNED * width


def _suits(pool: Node) -> bool:
    """Whether it is one for which a kernel has a body with pixels in lanes."""
    if pool.op not in ("max_pool", "average_pool") or len(pool.inputs) + len(pool.outputs) > 2 or "chain" in pool.attrs:
        return False
    a = pool.attrs
    near = {*a["strides"], *a["dilations"]} == {1} and is_near(pool)
    return near and tuple(a["kernel_shape"]) in SQUARES and known(pool.x, pool.out, dtypes=[np.float32])
