"""Choosing: sorting, the largest, what is not zero, boxes, labels. Semantics: .../ops/defs/*/tensor_operation.py and
iOS15/classify.py; how boxes are suppressed when none counts, coremltools' tests of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from ..core.common import axis_in, ints
from .call import Call, rule

MOST_BOXES = 1 << 24


def _extent(c: Call, x: Value, axis: int) -> Value:
    """The extent of an axis as a vector of one number."""
    assert x.type.shape is not None
    extent = x.type.shape[axis]
    return ints(c, [extent]) if isinstance(extent, int) else c.add("shape", [x], start=axis, end=axis + 1)


def _whole(c: Call, value: Value, index: int) -> None:
    """Let output `index` be whole numbers, in the type that the program declares."""
    c.give(c.cast(value, c.declared[index].held.dtype), index)


def _sorted(c: Call, k: Value, axis: int) -> list[Value]:
    made = [c.fresh(), c.fresh()]
    c.add("top_k", [c.x(), k], made, axis=axis, largest=int(not c.known("ascending", False)), sorted=1)
    return made


@rule("topk")
def _topk(c: Call) -> None:
    """(values, indices unless return_indices says no); k = -1 stands for all."""
    axis, k = axis_in(c, c.known("axis", -1), c.rank(c.x())), c.value("k")
    if k is None or k.data is not None:
        count = int(c.known("k", 1))
        number = _extent(c, c.x(), axis) if count == -1 else ints(c, [count])
    else:
        number = c.int64(c.add("reshape", [k, ints(c, [1])]))
    values, indices = _sorted(c, number, axis)
    c.give(values)
    if len(c.outputs) > 1:
        _whole(c, indices, 1)


@rule("argsort")
def _argsort(c: Call) -> None:
    axis = axis_in(c, c.known("axis", -1), c.rank(c.x()))
    _whole(c, _sorted(c, _extent(c, c.x(), axis), axis)[1], 0)


@rule("non_zero")
def _non_zero(c: Call) -> None:
    """A row for each element that is not zero: its indices."""
    _whole(c, c.add("transpose", [c.add("non_zero", [c.x()])], perm=(1, 0)), 0)


@rule("one_hot")
def _one_hot(c: Call) -> None:
    """A new axis with on_value at the index and off_value elsewhere; indices outside it, negative ones too, are
    nowhere."""
    indices = c.x("indices")
    axis, dtype = axis_in(c, c.known("axis", -1), c.rank(indices) + 1), c.declared[0].held.dtype
    values = c.const(np.array([c.known("off_value", 0), c.known("on_value", 1)]).astype(dtype))
    depth = c.int64(c.x("one_hot_vector_size"))
    c.finish("one_hot", [c.int64(indices), depth, values], axis=axis, wrap=0)


@rule("non_maximum_suppression")
def _suppression(c: Call) -> None:
    """From iOS17 on boxes and scores have the boxes last, and there is neither a threshold of scores nor a count."""
    boxes, scores, last = c.x("boxes"), c.x("scores"), c.version >= 7
    most, least = int(c.known("max_boxes")), c.known("score_threshold", None)
    if not 0 <= most <= MOST_BOXES:
        c.fail(f"expected max_boxes from 0 to {MOST_BOXES}, found {most}")
    if last:
        boxes, scores = (c.add("transpose", [v], perm=(0, 2, 1)) for v in (boxes, scores))
    made = [c.fresh() for _ in range(4)]
    c.add("select_boxes", [boxes, scores], made, max_boxes=most, limit=float(c.known("iou_threshold")),
          least=None if least is None else float(least),
          per_class=int(c.known("per_class_suppression", False)))  # fmt: skip
    for index, value in enumerate(made[: len(c.outputs)]):
        if index > 1:
            _whole(c, value, index)
        else:
            c.give(c.add("transpose", [value], perm=(0, 2, 1)) if last else value, index)


@rule("classify")
def _classify(c: Call) -> None:
    """The label of the greatest probability; every label's probability."""
    given = c.x("probabilities")
    if given.type.dtype is None or given.type.dtype.kind != "f":
        c.fail(f"expected probabilities of a float type, found {given.type}")
    probabilities = c.add("reshape", [given, ints(c, [-1])])
    labels = [v.item() if isinstance(v, np.generic) else v for v in np.asarray(c.known("classes")).reshape(-1)]
    count = probabilities.type.shape[0] if probabilities.type.shape else None
    if not labels or (isinstance(count, int) and count != len(labels)):
        c.fail(f"expected a label for each of {count} probabilities, found {len(labels)}")

    def best(array: np.ndarray) -> Any:
        return labels[int(np.argmax(array))]

    def all_of(array: np.ndarray) -> dict[Any, float]:
        return {label: float(p) for label, p in zip(labels, array, strict=True)}

    for index, function in enumerate((best, all_of)[: len(c.outputs)]):
        c.show(index, probabilities, function)
