"""Of bounded values: windows that slide over each element of a batch of which some are not there."""

from __future__ import annotations

from ...ir import Node
from .state import Bounds, follows
from .values import Bounded, Unbounded


@follows("conv", "conv_transpose", "max_pool", "average_pool", "lp_pool")
def window(bounds: Bounds, node: Node) -> list[Bounded]:
    x, others = bounds.take(node.x), [None if v is None else bounds.fixed(v) for v in node.inputs[1:]]
    if x.extents.keys() - {0}:
        raise Unbounded
    return [Bounded(v, x.extents) for v in bounds.again(node, [x.value, *others])]
