"""Boxes of single-shot detectors from their anchors. Semantics: tflite/kernels/detection_postprocess.cc.

Boxes are (y, x, height, width) relative to anchors of the same form; results (top, left, bottom, right).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import FLOAT32, Node, TensorType
from ..ops import check
from ..ops.detection import greedy, overlapping
from ..ops.inference import Types
from ..ops.registry import REQUIRED, attr, define, fail
from ..ops.work import squares


@check.takes("boxes f 3, scores f 3, anchors f 2")
def _infer(node: Node, types: Types) -> list[TensorType]:
    boxes, scores, anchors = types
    places = boxes.shape[1] if boxes.shape else None
    check.shape(node, scores, "scores", boxes.shape[0] if boxes.shape else None, places, None)
    check.shape(node, anchors, "anchors", places, anchors.shape[1] if anchors.shape else None)
    for t, what in ((boxes, "boxes"), (anchors, "anchors")):
        if t.shape and isinstance(t.shape[-1], int) and t.shape[-1] < 4:
            fail(node, f"{what} must have 4 numbers each, found {t.shape[-1]}")
    if scores.shape and isinstance(scores.shape[2], int) and scores.shape[2] - attr(node, "classes") not in (0, 1):
        fail(node, f"scores of {attr(node, 'classes')} classes, with or without background: found {scores.shape[2]}")
    if boxes.shape and boxes.shape[0] not in (1, None):
        fail(node, f"the batch must be 1, found {boxes.shape[0]}")
    if attr(node, "detections") < 0 or attr(node, "classes_per_detection") < 1 or attr(node, "classes") < 1:
        fail(node, "the numbers of detections and classes must be positive")
    if not 0 < attr(node, "iou_threshold") <= 1:
        fail(node, f"iou_threshold must be above 0 and up to 1, found {attr(node, 'iou_threshold')}")
    rows = attr(node, "detections") * attr(node, "classes_per_detection")
    flat = TensorType(FLOAT32, (1, rows))
    return [TensorType(FLOAT32, (1, rows, 4)), flat, flat, TensorType(FLOAT32, (1,))]


def _decoded(node: Node, boxes: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    y, x, h, w = (boxes[:, i].astype(np.float64) / s for i, s in enumerate(attr(node, "scales")))
    tops, lefts, heights, widths = anchors[:, :4].astype(np.float64).T
    with np.errstate(over="ignore"):
        center = np.stack([y * heights + tops, x * widths + lefts], 1).astype(np.float32)
        half = np.stack([0.5 * np.exp(h) * heights, 0.5 * np.exp(w) * widths], 1).astype(np.float32)
    return np.concatenate([center - half, center + half], 1)


def _kept(node: Node, boxes: np.ndarray, scores: np.ndarray, most: int) -> list[int]:
    order = np.flatnonzero(scores >= np.float32(attr(node, "score_threshold")))
    order = order[np.argsort(-scores[order], kind="stable")]
    limit = np.float32(attr(node, "iou_threshold"))
    return greedy(order, most, lambda best, others: ~(overlapping(boxes[best], boxes[others]) <= limit))


def _regular(node: Node, boxes: np.ndarray, scores: np.ndarray) -> list[tuple[int, int]]:
    """(box, class) by falling score, suppressed within each class."""
    most = attr(node, "detections")
    found: list[tuple[int, int]] = []
    for c in range(scores.shape[1]):
        found += [(i, c) for i in _kept(node, boxes, scores[:, c], min(attr(node, "detections_per_class"), most))]
        found = sorted(found, key=lambda pair: -scores[pair])[:most]
    return found


def _fast(node: Node, boxes: np.ndarray, scores: np.ndarray) -> list[tuple[int, int]]:
    """(box, class): boxes suppressed by their best score, each with its best classes."""
    count = min(attr(node, "classes_per_detection"), scores.shape[1])
    kept = _kept(node, boxes, scores.max(axis=1), attr(node, "detections"))
    return [(i, int(c)) for i in kept for c in np.argsort(-scores[i], kind="stable")[:count]]


def _detect(node: Node, inputs: list[Any]) -> list[Any]:
    """(boxes, classes, scores, how many); what is not detected is 0."""
    scores = inputs[1][0].astype(np.float32)[:, -attr(node, "classes") :]
    boxes = _decoded(node, inputs[0][0], inputs[2])
    if (boxes[:, :2] > boxes[:, 2:]).any():
        fail(node, "a box would have a negative extent: anchors must not have one")
    each = attr(node, "classes_per_detection")
    pairs = (_regular if attr(node, "regular") else _fast)(node, boxes, scores)
    rows = attr(node, "detections") * each
    out = [np.zeros((1, rows, 4), np.float32), np.zeros((1, rows), np.float32), np.zeros((1, rows), np.float32)]
    taken = 1 if attr(node, "regular") else min(each, scores.shape[1])
    for i, (box, c) in enumerate(pairs):
        place = i if taken == each or attr(node, "regular") else i // taken * each + i % taken
        out[0][0, place], out[1][0, place], out[2][0, place] = boxes[box], c, scores[box, c]
    return [*out, np.array([len(pairs) // taken], np.float32)]


define(
    "detection_postprocess", _infer, _detect,
    attrs={
        "detections": REQUIRED, "classes_per_detection": 1, "detections_per_class": 100, "classes": REQUIRED,
        "score_threshold": REQUIRED, "iou_threshold": REQUIRED, "scales": REQUIRED, "regular": 0,
    },
    work=squares,
)  # fmt: skip
