"""Choosing: sorting, the largest, what is not zero, boxes, labels. Semantics: .../ops/defs/*/tensor_operation.py and
iOS15/classify.py; how boxes are suppressed when none counts, coremltools' tests of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from ..core.common import axis_in
from .call import Call
from .common import extent
from .signatures import Axis, Int64, rule

MOST_BOXES = 1 << 24


@rule("topk")
def topk(c: Call, x: Value, axis: Axis = -1, k: Value | None = None, ascending: bool = False) -> list[Value]:
    """(values, indices unless return_indices says no); k = -1 stands for all."""
    if k is None or k.data is not None:
        count = 1 if k is None else int(c.known("k"))
        number = extent(c, x, axis) if count == -1 else c.vector(count)
    else:
        number = c.int64(c("reshape", k, c.vector(1)))
    return c.several("top_k", 2, x, number, axis=axis, largest=int(not ascending), sorted=1)


@rule("argsort")
def argsort(c: Call, x: Value, axis: Axis = -1, ascending: bool = False) -> Value:
    return c.several("top_k", 2, x, extent(c, x, axis), axis=axis, largest=int(not ascending), sorted=1)[1]


@rule("non_zero")
def non_zero(c: Call, x: Value) -> Value:
    """A row for each element that is not zero: its indices."""
    return c.turn(c("non_zero", x), 1, 0)


@rule("one_hot")
def one_hot(
    c: Call, indices: Int64, one_hot_vector_size: Int64, axis: int = -1, on_value: Any = 1, off_value: Any = 0
) -> Value:
    """A new axis with on_value at the index and off_value elsewhere; indices outside it, negative ones too, are
    nowhere."""
    values = np.array([off_value, on_value]).astype(c.declared[0].held.dtype)
    axis = axis_in(c, axis, c.rank(indices) + 1)
    return c("one_hot", indices, one_hot_vector_size, values, axis=axis, wrap=0)


@rule("non_maximum_suppression")
def non_maximum_suppression(c: Call, boxes: Value, scores: Value, max_boxes: int, **attrs: Any) -> list[Value]:
    """From iOS17 on boxes and scores have the boxes last, and there is neither a threshold of scores nor a count."""
    if not 0 <= max_boxes <= MOST_BOXES:
        c.fail(f"expected max_boxes from 0 to {MOST_BOXES}, found {max_boxes}")
    last = c.version >= 7
    if last:
        boxes, scores = c.turn(boxes, 0, 2, 1), c.turn(scores, 0, 2, 1)
    found = c.several("select_boxes", 4, boxes, scores, max_boxes=max_boxes, **attrs)
    return [c.turn(v, 0, 2, 1) if last else v for v in found[:2]] + found[2:]


@rule("classify")
def classify(c: Call, probabilities: Value, classes: Any) -> None:
    """The label of the greatest probability; every label's probability: for callers of the model, not for operators."""
    if probabilities.type.dtype is None or probabilities.type.dtype.kind != "f":
        c.fail(f"expected probabilities of a float type, found {probabilities.type}")
    flat = c("reshape", probabilities, c.vector(-1))
    labels = [v.item() if isinstance(v, np.generic) else v for v in np.asarray(classes).reshape(-1)]
    count = flat.type.shape[0] if flat.type.shape else None
    if not labels or (isinstance(count, int) and count != len(labels)):
        c.fail(f"expected a label for each of {count} probabilities, found {len(labels)}")

    def best(array: np.ndarray) -> Any:
        return labels[int(np.argmax(array))]

    def all_of(array: np.ndarray) -> dict[Any, float]:
        return {label: float(p) for label, p in zip(labels, array, strict=True)}

    for index, function in enumerate((best, all_of)[: len(c.outputs)]):
        c.scope.reader.shown[c.outputs[index]] = flat, function
