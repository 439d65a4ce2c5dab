"""Non-maximum suppression of one class, hard or soft. Semantics: TensorFlow's NonMaxSuppressionV4 and V5."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import INT64, Node, TensorType
from ..ops import check
from ..ops.detection import as_corners, overlapping
from ..ops.inference import Types, ints, whole
from ..ops.registry import define
from ..ops.work import squares


@check.takes(
    "boxes iuf 2, scores iuf 1, max_output_size iu one, iou_threshold iuf one, score_threshold iuf one, sigma? iuf one"
)
def _infer(node: Node, types: Types) -> list[TensorType]:
    check.shape(node, types[0], "boxes", types[1].shape[0] if types[1].shape else None, 4)
    most = whole(node, 2)
    count = None if most is None else max(most, 0)
    return [TensorType(INT64, (count,)), TensorType(types[1].dtype, (count,)), TensorType(INT64, ())]


def _number(array: Any) -> float:
    return float(np.reshape(array, -1)[0])


def _suppression(node: Node, inputs: list[Any]) -> list[Any]:
    """[indices, scores, count], the first two filled up with zeros to the greatest number of boxes.

    Inputs: boxes [N, 4] as opposite corners, scores [N], greatest number, overlap from which a box is dropped, score
    above which one counts, and a sigma: with one above 0 overlap also lowers scores, by exp(-overlap ** 2 / (2 sigma)).
    """
    boxes, scores, most = as_corners(inputs[0], 0), inputs[1], max(ints(inputs[2])[0], 0)
    limit, least = _number(inputs[3]), _number(inputs[4])
    sigma = 0.0 if inputs[5] is None else _number(inputs[5])
    decay = -0.5 / sigma if sigma > 0 else 0.0
    waiting = {i: (float(s), 0) for i, s in enumerate(scores) if s > least}
    chosen: list[tuple[int, float]] = []
    while waiting and len(chosen) < most:
        best = max(waiting, key=lambda i: waiting[i][0])
        score, compared = waiting.pop(best)
        overlaps = overlapping(boxes[best], boxes[[i for i, _ in chosen[compared:]]])
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


define("box_suppression", _infer, _suppression, work=squares)
