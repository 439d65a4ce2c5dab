"""Operators that are a few elementwise steps or products."""

from __future__ import annotations

import numpy as np

from ...ir import Node, Value
from ...ops.registry import attr
from ...rules.operands import known, real
from ...rules.rule import rule
from ...rules.sweep import Sweep


@rule("common", "fake_quant")
def fake_quant(g: Sweep, node: Node) -> bool:
    """Given ``y = fake_quant(x)``; result ``round((clip(x) - least) / step) * step + least``."""
    from ...ops.quantize import nudged

    x = node.x
    if not known(x) or not real(x.type.dtype):
        return False
    low, high, step = nudged(node)
    steps = g.floor((g.clip(x, low, high) - low) * (np.float32(1) / step) + 0.5)
    return g.becomes(steps * step + low)


@rule("rare", "swiglu")
def swiglu(g: Sweep, node: Node) -> bool:
    """Given ``y = swiglu(a, b)``; result ``a * sigmoid(alpha * a) * b``."""
    a, b = node.inputs
    alpha = attr(node, "alpha")
    if a is None or b is None or not known(a, b):
        return False
    return g.becomes(a * g.sigmoid(a if alpha == 1 else a * alpha) * b)


@rule("rare", "shrink")
def shrink(g: Sweep, node: Node) -> bool:
    """Given ``y = shrink(x)``; result x moved towards 0 by the bias where it is far from it, else 0."""
    x, bound, bias = node.x, attr(node, "lambd"), attr(node, "bias")
    return known(x) and g.becomes(g.choose(x < -bound, x + bias, g.choose(x > bound, x - bias, 0)))


@rule("rare", "det")
def det(g: Sweep, node: Node) -> bool:
    """Given ``y = det(x)`` of matrices of up to 3 rows; result the sum of its products."""
    n = node.x.type.dims[-1] if known(node.x) and real(node.x.type.dtype) else 0
    if not 0 < n <= 3:
        return False
    flat = g.shape(node.x, *node.x.type.dims[:-2], n * n)
    part = [g.cut(flat, len(flat.type.dims) - 1, i, i + 1) for i in range(n * n)]

    def minor(a: int, b: int, c: int, d: int) -> Value:
        return part[a] * part[d] - part[b] * part[c]

    if n < 3:
        return g.becomes(part[0] if n == 1 else minor(0, 1, 2, 3))
    return g.becomes(part[0] * minor(4, 5, 7, 8) - part[1] * minor(3, 5, 6, 8) + part[2] * minor(3, 4, 6, 7))


@rule("rare", "tensor_scatter")
def circular_scatter(g: Sweep, node: Node) -> bool:
    """Given ``y = tensor_scatter(cache, x, at)`` in circular mode; result x scattered to ``(at + 0, 1, ..) % n``."""
    past, update, start = (node.input(i) for i in range(3))
    if attr(node, "mode") != "circular" or update is None or start is None or not known(past, update, start):
        return False
    dims, axis = update.type.dims, attr(node, "axis") % len(update.type.dims)
    along = np.arange(dims[axis]).reshape([-1 if a == axis else 1 for a in range(len(dims))])
    at = (g.shape(g.cast(start, np.int64), dims[0], *(1 for _ in dims[1:])) + along) % node.x.type.dims[axis]
    return g.becomes(g("scatter_elements", node.x, g.broadcast(at, *dims), update, axis=axis, reduction="none"))
