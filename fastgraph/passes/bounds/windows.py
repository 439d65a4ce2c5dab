"""Of bounded values: windows that slide over each element of a batch of which some are not there."""

from __future__ import annotations

from ...ir import Node
from .state import Bounds, follows
from .values import Bounded, Unbounded


@follows("conv", "conv_transpose", "max_pool", "average_pool", "lp_pool")
def window(g: Bounds, node: Node) -> list[Bounded]:
    x, others = g.take(node.x), [None if v is None else g.fixed(v) for v in node.inputs[1:]]
    if x.extents.keys() - {0}:
        raise Unbounded
    return [Bounded(v, x.extents) for v in g.again(node, x.value, *others)]
