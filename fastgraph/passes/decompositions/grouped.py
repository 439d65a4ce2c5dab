"""Group normalization, which older files write as an instance normalization between reshapes."""

from __future__ import annotations

import numpy as np

from ...ir import Node, Value
from ...ops.registry import OPS, Layout, attr
from ...ops.shape import permutation
from ...rules.rule import rule
from ...rules.sweep import Sweep

DEPTH = 6
"""Operators above a value among which a transpose is looked for."""


@rule("early", "instance_normalization")
def grouped_channels(g: Sweep, node: Node) -> bool:
    """Given ``y = reshape(instance_normalization(reshape(u, [n, groups, -1])), [n, c, h, w])``, of u from a layer
    whose channels are last; result ``y = group_normalization(u) {num_groups=groups}``, which leaves them there.
    """
    scale, bias, flat = node.const(1), node.const(2), _before(g, node.x)
    if scale is None or bias is None or flat is None or node.out.type.dtype != np.float32:
        return False
    u, groups = flat.x, scale.size
    dims = u.type.dims
    if len(dims) < 3 or groups == 0 or dims[1] % groups or not u.type.size or not _last(g, u, DEPTH):
        return False
    rows = (dims[0], groups, u.type.size // (dims[0] * groups))
    if node.x.type.dims != (rows[0], rows[2], rows[1]):
        return False
    parameters = [np.repeat(v, dims[1] // groups) for v in (scale, bias)]
    y = g("group_normalization", u, *parameters, num_groups=groups, epsilon=attr(node, "epsilon"))
    return g.becomes(g.turn(g.shape(y, *rows), 0, 2, 1))


def _before(g: Sweep, value: Value) -> Node | None:
    """The reshape before a value, or before its transpose; that of one group is one itself."""
    node = g.maker.get(value)
    if node is not None and node.op == "transpose" and permutation(node) == (0, 2, 1):
        node = g.maker.get(node.x)
    return node if node is not None and node.op == "reshape" else None


def _last(g: Sweep, value: Value | None, depth: int) -> bool:
    """Whether a value comes, but for elementwise work, from one whose last axis became the second."""
    node = None if value is None else g.maker.get(value)
    if node is None or depth == 0:
        return False
    if node.op == "transpose":
        perm = permutation(node)
        return len(perm) > 2 and perm[1] == len(perm) - 1
    each = OPS[node.op].layout is Layout.EACH or node.op == "concat"
    return each and any(_last(g, v, depth - 1) for v in node.inputs)
