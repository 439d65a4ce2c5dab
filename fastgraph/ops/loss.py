"""Training losses that exported models may end in. Semantics: ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from .activation import log_softmax
from .common import FLOAT, WHOLE, Types, fail, fits, need_kind, need_rank, one_dtype, one_of, same_type
from .registry import attr, define


def _infer_loss(node: Node, types: Types) -> list[TensorType]:
    x, target, weight = types
    need_rank(node, x, 2)
    need_kind(node, x, FLOAT)
    need_kind(node, target, WHOLE, "the target")
    one_dtype(node, [x, weight])
    one_of(node, "reduction", attr(node, "reduction"), ("none", "sum", "mean"))
    if x.shape:
        fits(node, target, "the target", x.shape[0], *x.shape[2:])
        fits(node, weight, "the weight", x.shape[1])
        _check_classes(node, node.const(1), x.shape[1])
    shape = target.shape if target.shape is not None else (x.shape[0], *x.shape[2:]) if x.shape else None
    return [TensorType(x.dtype, shape if attr(node, "reduction") == "none" else ())]


def _check_classes(node: Node, target: np.ndarray | None, count: object) -> None:
    """ModelError for a class that there is not, unless it is the one to be ignored."""
    if target is None or not isinstance(count, int):
        return
    wrong = target[((target < 0) | (target >= count)) & (target != attr(node, "ignore_index"))]
    if wrong.size:
        fail(node, f"the target must be classes from 0 to {count - 1}, found {wrong.reshape(-1)[0]}")


def picked_loss(node: Node, log_prob: np.ndarray, target: np.ndarray, weight: Any) -> np.ndarray:
    """-log_prob [N, C, ...] at the target classes [N, ...], weighted by class, reduced."""
    ignored = np.zeros(target.shape, bool)
    if attr(node, "ignore_index") is not None:
        ignored = target == attr(node, "ignore_index")
    classes = np.where(ignored, 0, target)
    picked = np.squeeze(np.take_along_axis(log_prob, np.expand_dims(classes, 1), 1), 1)
    factor = (np.ones(log_prob.shape[1], log_prob.dtype) if weight is None else weight)[classes]
    factor = np.where(ignored, log_prob.dtype.type(0), factor)
    loss = np.where(ignored, log_prob.dtype.type(0), -picked * factor)
    if attr(node, "reduction") == "none":
        return loss
    return np.asarray(loss.sum() if attr(node, "reduction") == "sum" else loss.sum() / factor.sum())


def _nll(node: Node, inputs: list[Any]) -> list[Any]:
    return [picked_loss(node, *inputs).astype(inputs[0].dtype, copy=False)]


def _infer_cross_entropy(node: Node, types: Types) -> list[TensorType]:
    return [*_infer_loss(node, types), *same_type(node, types)]


def _cross_entropy(node: Node, inputs: list[Any]) -> list[Any]:
    scores, labels, weights = inputs
    log_prob = log_softmax(scores, 1)
    return [picked_loss(node, log_prob, labels, weights).astype(scores.dtype, copy=False), log_prob]


_ATTRS = {"ignore_index": None, "reduction": "mean"}
define("negative_log_likelihood_loss", _infer_loss, _nll, inputs=(2, 3), attrs=_ATTRS)
define("softmax_cross_entropy_loss", _infer_cross_entropy, _cross_entropy, inputs=(2, 3), attrs=_ATTRS)
