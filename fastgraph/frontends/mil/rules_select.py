"""Choosing: sorting, the largest, what is not zero, boxes, labels; elements at indices.

Semantics: .../ops/defs/*/{tensor_operation, scatter_gather}.py and iOS15/classify.py; how boxes are suppressed when
none counts, coremltools' tests of it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...ir import Value
from ...ir.ports import by_label, label
from ..core.common import axis_in
from .call import Call
from .common import extent
from .signatures import Formulas, formulas, rule

MOST_BOXES = 1 << 24


FORMULAS: Formulas = {
    "argsort: x axis:Axis=-1 ascending:flag=0": lambda c, x, axis, ascending: _sorted(
        c, x, extent(c, x, axis), axis, ascending
    )[1],
    "non_zero: x": lambda c, x: c.transpose(c("non_zero", x), 1, 0),  # a row of indices for each element != 0
}
formulas(FORMULAS)


def _sorted(c: Call, x: Value, k: Value, axis: int, ascending: int) -> list[Value]:
    return c.several("top_k", 2, x, k, axis=axis, largest=1 - ascending, sorted=1)


@rule("topk: x axis:Axis=-1 k? ascending:flag=0")
def topk(c: Call, x: Value, axis: int, k: Value | None, ascending: bool) -> list[Value]:
    """(values, indices unless return_indices says no); k = -1 stands for all."""
    if k is None or k.data is not None:
        count = 1 if k is None else int(c.known("k"))
        number = extent(c, x, axis) if count == -1 else c.vector(count)
    else:
        number = c.int64(c("reshape", k, c.vector(1)))
    return _sorted(c, x, number, axis, ascending)


@rule("one_hot: indices:Int64 one_hot_vector_size:Int64 axis:int=-1 on_value:Any=1 off_value:Any=0")
def one_hot(c: Call, indices: Value, one_hot_vector_size: Value, axis: int, on_value: Any, off_value: Any) -> Value:
    """A new axis with on_value at the index and off_value elsewhere; indices below 0 or out of range set nothing."""
    values = np.array([off_value, on_value]).astype(c.declared[0].held.dtype)
    axis = axis_in(c, axis, c.rank(indices) + 1)
    return c("one_hot", indices, one_hot_vector_size, values, axis=axis, wrap=0)


@rule("""non_maximum_suppression: boxes scores | max_boxes:int limit<iou_threshold:float
  least<score_threshold:float? per_class<per_class_suppression:flag=0""")
def non_maximum_suppression(c: Call, boxes: Value, scores: Value, max_boxes: int, **attrs: Any) -> list[Value]:
    """From iOS17 on boxes and scores have the boxes last, and there is neither a threshold of scores nor a count."""
    if not 0 <= max_boxes <= MOST_BOXES:
        c.fail(f"expected max_boxes from 0 to {MOST_BOXES}, found {max_boxes}")
    last = c.version >= 7
    if last:
        boxes, scores = c.transpose(boxes, 0, 2, 1), c.transpose(scores, 0, 2, 1)
    found = c.several("select_boxes", 4, boxes, scores, max_boxes=max_boxes, **attrs)
    return [c.transpose(v, 0, 2, 1) if last else v for v in found[:2]] + found[2:]


@rule("classify: probabilities classes:Any")
def classify(c: Call, probabilities: Value, classes: Any) -> None:
    """The label of the greatest probability; every label's probability: for callers of the model, not for operators."""
    if probabilities.type.dtype is None or probabilities.type.dtype.kind != "f":
        c.fail(f"expected probabilities of a float type, found {probabilities.type}")
    flat = c("reshape", probabilities, c.vector(-1))
    labels = [v.item() if isinstance(v, np.generic) else v for v in np.asarray(classes).reshape(-1)]
    count = flat.type.shape[0] if flat.type.shape else None
    if not labels or (isinstance(count, int) and count != len(labels)):
        c.fail(f"expected a label for each of {count} probabilities, found {len(labels)}")
    for index, function in enumerate((label, by_label)[: len(c.outputs)]):
        c.scope.reader.shown[c.outputs[index]] = flat, partial(function, labels)


@rule("gather: x:Dense indices:Indices axis:Axis=0 batch_dims:int=0")
def gather(c: Call, x: Value, indices: Value, axis: int, batch_dims: int) -> Value:
    """Places along `axis`; the first `batch_dims` axes of both go together."""
    if not batch_dims:
        return c.pick(x, indices, axis)
    if not 0 < batch_dims <= min(axis, c.rank(indices)):
        c.fail(f"expected batch_dims from 0 to the axis {axis} and the rank of the indices, found {batch_dims}")
    return c("gather_batches", x, indices, axis=axis, batch_dims=batch_dims)


@rule("scatter: data:Dense indices:Indices updates:Updates axis:Axis=0 mode:Scatter=add")
def scatter(c: Call, data: Value, indices: Value, updates: Value, axis: int, mode: str) -> Value:
    """Slices across `axis`, at a vector of places."""
    if c.rank(indices) > 1:
        c.fail(f"expected a vector of indices, found {indices.type}")
    first = (axis, *(i for i in range(c.rank(data)) if i != axis))
    places = c("reshape", indices, c.vector(-1, 1))
    found = c("scatter_nd", c.transpose(data, *first), places, c.transpose(updates, *first), reduction=mode)
    return c.transpose(found, *(first.index(i) for i in range(len(first))))
