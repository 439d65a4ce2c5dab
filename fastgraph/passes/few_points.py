"""Images that are sampled at few points are read with channels first, as they lie."""

from __future__ import annotations

from math import prod

from ..ir import Node
from ..ops.registry import attr
from ..ops.shape import permutation
from ..rules.rule import rule
from ..rules.sweep import Sweep

TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
"""Along each axis."""
DENSER = 2
"""Pixels for each number that is read of a channel, from which on a transpose of all takes longer than what
channels that lie together save."""


@rule("last_chains", "grid_sample")
def few_points(g: Sweep, node: Node) -> bool:
    """Given ``y = grid_sample(transpose(x), grid)`` of few points, where nothing else reads the transpose; result
    ``y = grid_sample(x, grid) {channels_first=1}``.
    """
    turned = g.sole_maker(node.x)
    if turned is None or turned.op != "transpose" or not turned.x.type.concrete or not node.out.type.concrete:
        return False
    rank = len(node.x.type.dims)
    if permutation(turned) != (0, *range(2, rank), 1):
        return False
    taps = TAPS[attr(node, "mode")] ** (rank - 2)
    if prod(node.out.type.dims[1:-1]) * (taps + 1) * DENSER > prod(node.x.type.dims[1:-1]):
        return False
    return g.becomes(g(node.op, turned.x, node.y, type=node.out.type, **{**node.attrs, "channels_first": 1}))
