"""Products of stacks of matrices."""

from __future__ import annotations

import numpy as np

from ...ir import Node, Value
from ...ir.build import constant
from ...rules.operands import real
from ...rules.rule import rule
from ...rules.sweep import Sweep


@rule("pads", "matmul")
def spread_matmul(g: Sweep, node: Node) -> bool:
    """Given ``y = a @ b`` of stacks of matrices that are spread over one another; result the product of two alike."""
    a, b = node.inputs[:2]
    assert a is not None and b is not None
    if len(node.inputs) > 2 or not all(v.type.concrete and v.type.size for v in (a, b, node.out)):
        return False
    if not real(a.type.dtype) or len(a.type.dims) < 2 or len(b.type.dims) < 3:
        return False
    stack = node.out.type.dims[:-2]
    if a.type.dims[:-2] == b.type.dims[:-2] or (*stack, a.type.dims[-2], b.type.dims[-1]) != node.out.type.dims:
        return False
    return g.again(node, [_spread(g, a, stack), _spread(g, b, stack)])


def _spread(g: Sweep, value: Value, stack: tuple[int, ...]) -> Value:
    """As many matrices as the stack has."""
    dims = (*stack, *value.type.dims[-2:])
    if value.data is not None and value.type.dims != dims:
        return constant(value, np.ascontiguousarray(np.broadcast_to(value.data, dims)), "spread")
    return g.spread(value, *dims)
