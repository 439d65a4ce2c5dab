"""Training losses that exported models may end in. Semantics: ONNX."""

from __future__ import annotations

from math import prod

import numpy as np

from ..ir import Node, TensorType, Value
from ..ops import check
from ..ops.inference import Types, same_type
from ..ops.registry import attr, define, fail
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep


@check.takes("x f 2+, target iu, weight?")
def _infer_loss(node: Node, types: Types) -> list[TensorType]:
    x, target, weight = types
    check.one_dtype(node, [x, weight])
    check.one_of(node, "reduction", attr(node, "reduction"), ("none", "sum", "mean"))
    if x.shape:
        check.shape(node, target, "the target", x.shape[0], *x.shape[2:])
        check.shape(node, weight, "the weight", x.shape[1])
        _check_classes(node, node.const(1), x.shape[1])
    shape = target.shape if target.shape is not None else (x.shape[0], *x.shape[2:]) if x.shape else None
    return [TensorType(x.dtype, shape if attr(node, "reduction") == "none" else ())]


def _check_classes(node: Node, target: np.ndarray | None, count: object) -> None:
    """ModelError for a class out of range, unless it is the one to be ignored."""
    if target is None or not isinstance(count, int):
        return
    wrong = target[((target < 0) | (target >= count)) & (target != attr(node, "ignore_index"))]
    if wrong.size:
        fail(node, f"the target must be classes from 0 to {count - 1}, found {wrong.reshape(-1)[0]}")


def _infer_cross_entropy(node: Node, types: Types) -> list[TensorType]:
    return [*_infer_loss(node, types), *same_type(node, types)]


_ATTRS = {"ignore_index": None, "reduction": "mean"}
define("negative_log_likelihood_loss", _infer_loss, attrs=_ATTRS)
define("softmax_cross_entropy_loss", _infer_cross_entropy, inputs=(2, 3), attrs=_ATTRS)


@rule("rare", "negative_log_likelihood_loss softmax_cross_entropy_loss")
def loss(g: Sweep, node: Node) -> bool:
    """Given ``y, p = softmax_cross_entropy_loss(x, target, weight)``; result ``p = log_softmax(x)`` and y, the
    negated elements of p at the targets, times their weights, summed.
    """
    x, target, weight = node.x, node.input(1), node.input(2)
    if target is None or not known(x, target, weight):
        return False
    batch, classes, *places = x.type.dims
    rows = g.shape(x, batch, classes, prod(places))
    if node.op == "softmax_cross_entropy_loss":
        rows = g("log_softmax", rows, axis=1)
    at, ignored = g.shape(target, batch, 1, prod(places)), None
    if attr(node, "ignore_index") is not None:
        ignored = g.equal(at, attr(node, "ignore_index"))
        at = g.choose(ignored, 0, at)
    y = -g("gather_elements", rows, at, axis=1)
    factor = None if weight is None else g("gather", weight, at, axis=0)
    if factor is not None:
        y = y * factor
    if ignored is not None:
        y = g.choose(ignored, 0, y)
        factor = g.choose(ignored, g.number(0, y), 1 if factor is None else factor)
    return g.becomes(_reduced(g, y, factor), rows)


def _reduced(g: Sweep, y: Value, factor: Value | None) -> Value:
    """The losses, their sum, or that divided by the sum of their weights."""
    how = attr(g.node, "reduction")
    if how == "none":
        return y
    total = g.sum(y, (0, 1, 2))
    if how == "sum":
        return total
    return total / (y.type.size if factor is None else g.sum(factor, (0, 1, 2)))
