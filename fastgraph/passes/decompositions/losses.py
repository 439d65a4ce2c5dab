"""Losses of training as the operators that they are made of."""

from __future__ import annotations

from math import prod

from ...ir import Node, Value
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .writing import Steps, known, operand, real


@rule("rare", "negative_log_likelihood_loss softmax_cross_entropy_loss")
def loss(state: Sweep, node: Node) -> bool:
    """Given ``y, p = softmax_cross_entropy_loss(x, target, weight)``; result ``p = log_softmax(x)`` and y, the
    negated elements of p at the targets, times their weights, summed.
    """
    do, x, target, weight = Steps(state, node), node.x, node.inputs[1], operand(node, 2)
    if target is None or not known(x, target, weight) or not real(x.type.dtype):
        return False
    batch, classes, *places = x.type.dims
    rows = do.shape(x, batch, classes, prod(places))
    if node.op == "softmax_cross_entropy_loss":
        rows = do("log_softmax", rows, axis=1)
    at, ignored = do.shape(target, batch, 1, prod(places)), None
    if attr(node, "ignore_index") is not None:
        ignored = do("equal", at, attr(node, "ignore_index"))
        at = do.where(ignored, 0, at)
    y = do("neg", do("gather_elements", rows, at, axis=1))
    factor = None if weight is None else do("gather", weight, at, axis=0)
    if factor is not None:
        y = do("mul", y, factor)
    if ignored is not None:
        y = do.where(ignored, 0, y)
        factor = do.where(ignored, do.number(0, y), 1 if factor is None else factor)
    return do.becomes(_reduced(do, y, factor), rows)


def _reduced(do: Steps, y: Value, factor: Value | None) -> Value:
    """The losses, their sum, or that divided by the sum of their weights."""
    how = attr(do.node, "reduction")
    if how == "none":
        return y
    total = do.reduce("reduce_sum", y, (0, 1, 2))
    if how == "sum":
        return total
    return do("div", total, y.type.size if factor is None else do.reduce("reduce_sum", factor, (0, 1, 2)))
