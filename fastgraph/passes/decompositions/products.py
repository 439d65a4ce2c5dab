"""Products of stacks of matrices."""

from __future__ import annotations

import numpy as np

from ...ir import Node, Value
from ...ir.build import constant
from ...rules.rule import rule
from ...rules.sweep import Sweep


@rule("pads", "matmul")
def spread_matmul(state: Sweep, node: Node) -> bool:
    """Given ``y = a @ b`` of stacks of matrices that are spread over one another; result the product of two alike."""
    a, b = node.inputs[:2]
    assert a is not None and b is not None
    if len(node.inputs) > 2 or not all(v.type.concrete and v.type.size for v in (a, b, node.out)):
        return False
    if a.type.dtype not in (np.float32, np.float64) or len(a.type.dims) < 2 or len(b.type.dims) < 3:
        return False
    if a.type.dims[:-2] == b.type.dims[:-2]:
        return False
    stack = node.out.type.dims[:-2]
    if (*stack, a.type.dims[-2], b.type.dims[-1]) != node.out.type.dims:
        return False
    both: list[Value | None] = [_spread(state, node, value, stack) for value in (a, b)]
    state.replace(node.out, state.add("matmul", both, node.out.type, node, **node.attrs))
    return True


def _spread(state: Sweep, node: Node, value: Value, stack: tuple[int, ...]) -> Value:
    """As many matrices as the stack has."""
    dims = (*stack, *value.type.dims[-2:])
    if value.type.dims == dims:
        return value
    if value.data is not None:
        return constant(value, np.ascontiguousarray(np.broadcast_to(value.data, dims)), "spread")
    shape = constant(node.out, np.array(dims, np.int64), "shape")
    return state.add("expand", [value, shape], value.type.with_shape(dims), node)
