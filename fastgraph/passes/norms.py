"""Normalizations of rows written as means, roots and products become normalization operators."""

from __future__ import annotations

import numpy as np

from ..ir import FLOAT32, Graph, Node, Value
from ..ir.build import constant
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep, sweep

NORMS = ("layer_normalization", "rms_normalization")


def norms(graph: Graph) -> bool:
    """Given ``c = sub(x, mean(x)), y = add(mul(div(c, sqrt(add(mean(mul(c, c)), e))), s), b)`` along rows; result
    ``y = layer_normalization(x, s, b)``.
    """
    return sweep(graph, "norms")


@rule("norms", "div mul")
def norm_of_means(g: Sweep, node: Node) -> bool:
    """Given ``div(c, sqrt(add(mean(mul(c, c)), e)))`` or ``mul(c, 1 / sqrt(..))``; result rms_normalization(c), or
    layer_normalization(x) of ``c = sub(x, mean(x))``.
    """
    if len(node.inputs) != 2 or not known(node.out, dtypes=[FLOAT32]):
        return False
    for c, root in (node.inputs, node.inputs[::-1])[: 1 if node.op == "div" else 2]:
        if c is None or root is None or c.type != node.out.type or not c.type.dims:
            continue
        epsilon = _under_root(g, root if node.op == "div" else _reciprocal(g, root), c)
        if epsilon is None:
            continue
        center = g.made_by(c, "sub")
        x = None if center is None else _centered(g, center)
        op, value = (NORMS[1], c) if x is None else (NORMS[0], x)
        return g.becomes(g(op, value, np.ones(c.type.dims[-1], FLOAT32), type=node.out.type, axis=-1, epsilon=epsilon))
    return False


def _reciprocal(g: Sweep, value: Value) -> Value | None:
    """x where the value is 1 / x."""
    if (node := g.made_by(value, "reciprocal")) is not None:
        return node.x
    node = g.made_by(value, "div")
    return node.inputs[1] if node is not None and _number(node.x) == 1 else None


def _number(value: Value | None) -> float | None:
    return None if value is None or value.data is None or value.data.size != 1 else float(value.data.item())


def _under_root(g: Sweep, root: Value | None, c: Value) -> float | None:
    """epsilon where the value is sqrt(mean(c * c) + epsilon)."""
    sqrt = g.made_by(root, "sqrt")
    total = None if sqrt is None else g.made_by(sqrt.x, "add")
    if total is None or len(total.inputs) != 2:
        return None
    for mean, number in (total.inputs, total.inputs[::-1]):
        square = _mean(g, mean)
        epsilon = _number(number)
        if square is not None and epsilon is not None and _is_square(g, square, c):
            return epsilon
    return None


def _mean(g: Sweep, value: Value | None) -> Value | None:
    """x where the value is its mean along rows, with keepdims."""
    node = g.made_by(value, "reduce_mean")
    axes = None if node is None else node.const(1)
    if node is None or axes is None or not node.x.type.concrete:
        return None
    dims = node.x.type.dims
    rows = bool(dims) and [int(a) % len(dims) for a in axes.ravel()] == [len(dims) - 1]
    return node.x if rows and node.out.type.shape == (*dims[:-1], 1) else None


def _is_square(g: Sweep, value: Value, c: Value) -> bool:
    node = g.made_by(value, "mul", "pow")
    if node is None or node.x is not c:
        return False
    return node.inputs[1] is c if node.op == "mul" else _number(node.inputs[1]) == 2


def _centered(g: Sweep, node: Node) -> Value | None:
    """x where the value is x - mean(x)."""
    x, mean = node.inputs
    return x if x is not None and _mean(g, mean) is x and x.type == node.out.type else None


def _parameter(g: Sweep, node: Node) -> tuple[Node, Value] | None:
    """(the norm, the constant row) that are a node's operands, where nothing else reads the norm."""
    for x, row in (node.inputs, node.inputs[::-1]):
        norm = g.sole_maker(x)
        if norm is None or norm.op not in NORMS or row is None or row.data is None or node.out.type != norm.out.type:
            continue
        dims = row.type.dims
        if row.type.dtype == FLOAT32 and row.data.size == (dims[-1] if dims else 0) == norm.out.type.dims[-1]:
            return norm, row
    return None


@rule("norms", "mul")
def scale_of_norm(g: Sweep, node: Node) -> bool:
    """Given ``mul(layer_normalization(x, ones), s)``; result ``layer_normalization(x, s)``."""
    found = _parameter(g, node) if len(node.inputs) == 2 else None
    if found is None or found[0].has(2) or not (np.asarray(found[0].inputs[1].data) == 1).all():  # type: ignore[union-attr]
        return False
    return _with(g, found[0], [found[0].x, _row(found[1])])


@rule("norms", "add")
def bias_of_norm(g: Sweep, node: Node) -> bool:
    """Given ``add(layer_normalization(x, s), b)``; result ``layer_normalization(x, s, b)``."""
    found = _parameter(g, node) if len(node.inputs) == 2 else None
    if found is None or found[0].has(2) or found[0].op != "layer_normalization":
        return False
    return _with(g, found[0], [*found[0].inputs[:2], _row(found[1])])


def _row(value: Value) -> Value:
    """The constant as a vector."""
    return value if value.array.ndim == 1 else constant(value, value.array.reshape(-1), "row")


def _with(g: Sweep, norm: Node, inputs: list[Value | None]) -> bool:
    g.drop(norm)
    return g.again(norm, inputs)
