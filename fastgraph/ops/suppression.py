"""Non-maximum suppression of one class, hard or soft. Semantics: TensorFlow's NonMaxSuppressionV4 and V5."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import Node, TensorType
from .common import INT64, NUMBER, Types, at_least, fits, ints, need_kind, need_one, need_rank, one_dtype, whole
from .detection import _corners, _overlap
from .registry import REQUIRED, attr, define
from .work import squares


def _infer(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 2, 2, "boxes")
    need_rank(node, types[1], 1, 1, "scores")
    fits(node, types[0], "boxes", types[1].shape[0] if types[1].shape else None, 4)
    for t in types[:2]:
        need_kind(node, t, NUMBER, "boxes and scores")
    for t, what in zip(types[3:], ("the overlap", "the least score", "sigma"), strict=True):
        need_one(node, t, what, NUMBER)
    most = whole(node, 2, "the greatest number of boxes")
    count = None if most is None else max(most, 0)
    return [TensorType(INT64, (count,)), TensorType(types[1].dtype, (count,)), TensorType(INT64, ())]


def _number(array: Any) -> float:
    return float(np.reshape(array, -1)[0])


def _suppression(node: Node, inputs: list[Any]) -> list[Any]:
    """[indices, scores, count], the first two filled up with zeros to the greatest number of boxes.

    Inputs: boxes [N, 4] as opposite corners, scores [N], greatest number, overlap from which a box is dropped, score
    above which one counts, and a sigma: with one above 0 overlap also lowers scores, by exp(-overlap ** 2 / (2 sigma)).
    """
    boxes, scores, most = _corners(inputs[0], 0), inputs[1], max(ints(inputs[2])[0], 0)
    limit, least = _number(inputs[3]), _number(inputs[4])
    sigma = 0.0 if inputs[5] is None else _number(inputs[5])
    decay = -0.5 / sigma if sigma > 0 else 0.0
    waiting = {i: (float(s), 0) for i, s in enumerate(scores) if s > least}
    chosen: list[tuple[int, float]] = []
    while waiting and len(chosen) < most:
        best = max(waiting, key=lambda i: waiting[i][0])
        score, compared = waiting.pop(best)
        overlaps = _overlap(boxes[best], boxes[[i for i, _ in chosen[compared:]]])
        if (overlaps >= limit).any():
            continue
        lowered = score * math.exp(decay * float((overlaps * overlaps).sum())) if sigma > 0 else score
        if lowered == score:
            chosen.append((best, score))
        elif lowered > least:
            waiting[best] = (lowered, len(chosen))
    indices, found = np.zeros(most, np.int64), np.zeros(most, scores.dtype)
    for place, (index, score) in enumerate(chosen):
        indices[place], found[place] = index, score
    return [indices, found, np.array(len(chosen), np.int64)]


define("box_suppression", _infer, _suppression, inputs=(5, 6), work=squares)


def _infer_selected(node: Node, types: Types) -> list[TensorType]:
    boxes, scores = types
    need_rank(node, boxes, 3, 3, "boxes")
    need_rank(node, scores, 3, 3, "scores")
    one_dtype(node, types)
    need_kind(node, boxes, NUMBER, "boxes")
    batch, places, classes = scores.shape or (None, None, None)
    fits(node, boxes, "boxes", batch, places, 4)
    most = attr(node, "max_boxes")
    at_least(node, "max_boxes", most, 0)
    return [
        TensorType(boxes.dtype, (batch, most, 4)), TensorType(scores.dtype, (batch, most, classes)),
        TensorType(INT64, (batch, most)), TensorType(INT64, (batch,)),
    ]  # fmt: skip


def _selected(node: Node, inputs: list[Any]) -> list[Any]:
    """[boxes [N, max_boxes, 4], scores [N, max_boxes, K], indices [N, max_boxes], counts [N]], best first.

    Inputs: boxes [N, B, 4] as center x, y, width, height, scores [N, B, K]. A box's score is that of its best class.
    One counts from `least` on, and unless it overlaps a better one (`per_class`: of its class) by more than `limit`; if
    there is none, the best box. Zeros fill up, -1 the indices.
    """
    boxes, scores = inputs
    most, batch = attr(node, "max_boxes"), boxes.shape[0]
    found = [
        np.zeros((batch, most, 4), boxes.dtype), np.zeros((batch, most, scores.shape[2]), scores.dtype),
        np.full((batch, most), -1, np.int64), np.zeros(batch, np.int64),
    ]  # fmt: skip
    for n in range(batch if boxes.shape[1] else 0):
        kept = _best(node, boxes[n], scores[n], most)
        for array, part in zip(found, (boxes[n, kept], scores[n, kept], kept), strict=False):
            array[n, : len(kept)] = part
        found[3][n] = len(kept)
    return found


def _best(node: Node, boxes: np.ndarray, scores: np.ndarray, most: int) -> list[int]:
    corners, classes, best = _corners(boxes, 1), scores.argmax(axis=1), scores.max(axis=1)
    order = np.argsort(-best, kind="stable")
    waiting = order if attr(node, "least") is None else order[best[order] >= attr(node, "least")]
    kept: list[int] = []
    while waiting.size and len(kept) < most:
        first, waiting = int(waiting[0]), waiting[1:]
        kept.append(first)
        covered = _overlap(corners[first], corners[waiting]) > attr(node, "limit")
        if attr(node, "per_class"):
            covered &= classes[waiting] == classes[first]
        waiting = waiting[~covered]
    return kept or [int(i) for i in order[: min(most, 1)]]


define(
    "select_boxes", _infer_selected, _selected, inputs=(2, 2),
    attrs={"max_boxes": REQUIRED, "limit": REQUIRED, "least": None, "per_class": 0}, work=squares,
)  # fmt: skip
