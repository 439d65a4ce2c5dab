"""Detection: non_max_suppression, listed_places. Semantics: ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import INT64, Node, TensorType
from . import check
from .inference import Types, ints, whole
from .registry import attr, define, fail
from .work import squares


@check.takes(
    "boxes iuf 3, scores iuf 3, max_output_boxes_per_class? iu one,"
    " iou_threshold? iuf one, score_threshold? iuf one, count? iu one"
)
def _infer_nms(node: Node, types: Types) -> list[TensorType]:
    boxes, scores = types[:2]
    batch, classes, count = scores.shape or (None, None, None)
    check.shape(node, boxes, "boxes", batch, count, 4)
    most = 0 if types[2] is None else whole(node, 2)
    limit = node.const(3)
    if limit is not None and not 0 <= float(limit.reshape(-1)[0]) <= 1:
        fail(node, f"iou_threshold must be from 0 to 1, found {limit.reshape(-1)[0]}")
    most = most if attr(node, "most") is None else attr(node, "most")
    kept = max(min(most, count), 0) if isinstance(most, int) and isinstance(count, int) else None
    return [TensorType(INT64, (batch, classes, kept)), TensorType(INT64, (batch, classes))]


def as_corners(boxes: np.ndarray, centered: int) -> np.ndarray:
    """[N, 4] as (low, low, high, high)."""
    if centered:
        middle, half = boxes[:, [1, 0]], boxes[:, [3, 2]] / 2
        return np.concatenate([middle - half, middle + half], 1)
    a, b = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], 1)


def overlapping(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Intersection over union of one box with others."""
    inner = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.maximum(inner, 0).prod(axis=1)
    union = (box[2:] - box[:2]).prod() + (others[:, 2:] - others[:, :2]).prod(axis=1) - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1), 0)


def greedy(order: np.ndarray, most: int, covers: Callable[[int, np.ndarray], np.ndarray]) -> list[int]:
    """The first `most` of an order, without those that one before covers."""
    kept: list[int] = []
    while order.size and len(kept) < most:
        kept.append(int(order[0]))
        order = order[1:][~covers(kept[-1], order[1:])]
    return kept


def _kept(boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float | None) -> list[int]:
    """Boxes of one class by descending score, without those that overlap a better one."""
    order = np.argsort(-scores, kind="stable")
    order = order if least is None else order[scores[order] > least]
    return greedy(order, most, lambda best, others: ~(overlapping(boxes[best], boxes[others]) <= overlap))


def _nms(node: Node, inputs: list[Any]) -> list[Any]:
    """[indices of the kept boxes [batch, classes, most], filled up with -1; their counts [batch, classes]].

    Input 5 is the number of real boxes. The attribute `most`, where given, is the extent of the result in every run.
    """
    boxes, scores, most, overlap, least, real = inputs
    wanted = max(min(0 if most is None else ints(most)[0], scores.shape[2]), 0)
    count = wanted if attr(node, "most") is None else min(attr(node, "most"), scores.shape[2])
    real = scores.shape[2] if real is None else min(max(ints(real)[0], 0), scores.shape[2])
    share = 0.0 if overlap is None else float(np.reshape(overlap, -1)[0])
    floor = None if least is None else float(np.reshape(least, -1)[0])
    places, counts = np.full((*scores.shape[:2], count), -1, np.int64), np.zeros(scores.shape[:2], np.int64)
    for b in range(len(boxes)):
        corners = as_corners(boxes[b, :real], attr(node, "center_point_box"))
        for c in range(scores.shape[1]):
            kept = _kept(corners, scores[b, c, :real], min(wanted, count), share, floor)
            places[b, c, : len(kept)], counts[b, c] = kept, len(kept)
    return [places, counts]


@check.takes("places iu 3")
def _infer_listed(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(INT64, (None, 3))]


def _listed(node: Node, inputs: list[Any]) -> list[Any]:
    """[selected, 3]: (batch, class, box) of each index that is not below 0."""
    found = np.argwhere(inputs[0] >= 0)[:, :2]
    return [np.concatenate([found, inputs[0][inputs[0] >= 0][:, None]], 1).astype(np.int64)]


define("non_max_suppression", _infer_nms, _nms, attrs={"center_point_box": 0, "most": None}, work=squares)
define("listed_places", _infer_listed, _listed)
