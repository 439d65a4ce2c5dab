"""The best boxes that do not overlap. Semantics: Core ML's MIL, non_maximum_suppression."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import INT64, Node, TensorType
from ..ops import check
from ..ops.detection import as_corners, greedy, overlapping
from ..ops.inference import Types
from ..ops.registry import REQUIRED, attr, define
from ..ops.work import squares


@check.takes("boxes iuf 3, scores 3")
def _infer_selected(node: Node, types: Types) -> list[TensorType]:
    boxes, scores = types
    check.one_dtype(node, types)
    batch, places, classes = scores.shape or (None, None, None)
    check.shape(node, boxes, "boxes", batch, places, 4)
    most = attr(node, "max_boxes")
    check.at_least(node, "max_boxes", most, 0)
    return [
        TensorType(boxes.dtype, (batch, most, 4)),
        TensorType(scores.dtype, (batch, most, classes)),
        TensorType(INT64, (batch, most)),
        TensorType(INT64, (batch,)),
    ]


def _selected(node: Node, inputs: list[Any]) -> list[Any]:
    """[boxes [N, max_boxes, 4], scores [N, max_boxes, K], indices [N, max_boxes], counts [N]], best first.

    Inputs: boxes [N, B, 4] as center x, y, width, height, scores [N, B, K]. A box's score is that of its best class.
    One counts from `least` on, and unless it overlaps a better one (`per_class`: of its class) by more than `limit`; if
    there is none, the best box. Zeros fill up, -1 the indices.
    """
    boxes, scores = inputs
    most, batch = attr(node, "max_boxes"), boxes.shape[0]
    found = [
        np.zeros((batch, most, 4), boxes.dtype),
        np.zeros((batch, most, scores.shape[2]), scores.dtype),
        np.full((batch, most), -1, np.int64),
        np.zeros(batch, np.int64),
    ]
    for n in range(batch if boxes.shape[1] else 0):
        kept = _best(node, boxes[n], scores[n], most)
        for array, part in zip(found, (boxes[n, kept], scores[n, kept], kept), strict=False):
            array[n, : len(kept)] = part
        found[3][n] = len(kept)
    return found


def _best(node: Node, boxes: np.ndarray, scores: np.ndarray, most: int) -> list[int]:
    corners, classes, best = as_corners(boxes, 1), scores.argmax(axis=1), scores.max(axis=1)
    order = np.argsort(-best, kind="stable")
    waiting = order if attr(node, "least") is None else order[best[order] >= attr(node, "least")]

    def covers(one: int, others: np.ndarray) -> np.ndarray:
        covered: np.ndarray = overlapping(corners[one], corners[others]) > attr(node, "limit")
        return covered & (classes[others] == classes[one]) if attr(node, "per_class") else covered

    kept = greedy(waiting, most, covers)
    return kept or [int(i) for i in order[: min(most, 1)]]


define(
    "select_boxes",
    _infer_selected,
    _selected,
    attrs={"max_boxes": REQUIRED, "limit": REQUIRED, "least": None, "per_class": 0},
    work=squares,
)
