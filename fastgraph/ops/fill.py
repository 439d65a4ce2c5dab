"""Tensors made of numbers: range, one_hot, eye_like; trilu. Semantics: ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import MAX_ELEMENTS, Node, TensorType
from . import check
from .inference import Types, axis_of, ints, same_type
from .registry import attr, define, fail


@check.takes("start iuf one, limit iuf one, delta iuf one")
def _infer_range(node: Node, types: Types) -> list[TensorType]:
    dtype = check.one_dtype(node, types)
    parts = [node.const(i) for i in range(3)]
    if any(p is None for p in parts):
        return [TensorType(dtype, (None,))]
    return [TensorType(dtype, (range_length(node, *parts),))]


def range_length(node: Node, start: Any, limit: Any, delta: Any) -> int:
    """The number of elements of range(start, limit, delta)."""
    first, end, step = (np.asarray(v).reshape(-1)[0] for v in (start, limit, delta))
    if step == 0:
        fail(node, "delta must not be 0")
    if not all(map(np.isfinite, (first, end, step))):
        fail(node, f"start, limit and delta must be finite, found {first}, {end}, {step}")
    if np.asarray(start).dtype.kind in "iu":
        return max(-((int(first) - int(end)) // int(step)), 0)
    count = np.ceil((float(end) - float(first)) / float(step))
    return max(int(min(count, MAX_ELEMENTS + 1)), 0)


def _range(node: Node, inputs: list[Any]) -> list[Any]:
    start, _, delta = (np.asarray(v).reshape(-1)[0] for v in inputs)
    steps = np.arange(range_length(node, *inputs))
    if start.dtype.kind in "iu":
        return [(start + steps * delta).astype(start.dtype)]
    wide = np.float64 if start.dtype == np.float64 else np.float32
    return [(start.astype(wide) + steps.astype(wide) * delta.astype(wide)).astype(start.dtype)]


@check.takes("indices iuf, depth iuf one, values")
def _infer_one_hot(node: Node, types: Types) -> list[TensorType]:
    indices, values = types[0].shape, types[2]
    check.shape(node, values, "values", 2)
    depth = node.const(1)
    extent = None if depth is None else ints(depth)[0]
    check.at_least(node, "depth", 0 if extent is None else extent, 0)
    if indices is None:
        return [TensorType(types[2].dtype, None)]
    axis = axis_of(node, attr(node, "axis"), len(indices) + 1)
    return [TensorType(types[2].dtype, (*indices[:axis], extent, *indices[axis:]))]


def _one_hot(node: Node, inputs: list[Any]) -> list[Any]:
    """values[1] at the index along the axis (negative ones count from the end, or with wrap=0 match nothing), else
    values[0]."""
    indices, depth, values = inputs
    n, axis = ints(depth)[0], attr(node, "axis") % (indices.ndim + 1)
    # An index outside -n .. n - 1 must match nothing, so it is not wrapped.
    wrapped = np.where(indices < 0, indices + n, indices) if attr(node, "wrap") else indices
    places = np.arange(n).reshape([-1 if i == axis else 1 for i in range(indices.ndim + 1)])
    return [np.where(np.expand_dims(wrapped, axis) == places, values[1], values[0]).astype(values.dtype)]


@check.takes("x 2+, k? iu one")
def _infer_trilu(node: Node, types: Types) -> list[TensorType]:
    return same_type(node, types)


def _trilu(node: Node, inputs: list[Any]) -> list[Any]:
    x, k = inputs
    return [(np.triu if attr(node, "upper") else np.tril)(x, 0 if k is None else _clamped(ints(k)[0], x.shape))]


def _clamped(k: int, shape: tuple[int, ...]) -> int:
    """The offset of a diagonal, clamped to the first one outside of the matrix on either side."""
    return min(max(k, -shape[-2]), shape[-1])


@check.takes("x 2")
def _infer_eye_like(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(attr(node, "dtype") or types[0].dtype, types[0].shape)]


def _eye_like(node: Node, inputs: list[Any]) -> list[Any]:
    x = inputs[0]
    return [np.eye(x.shape[0], x.shape[1], _clamped(attr(node, "k"), x.shape), attr(node, "dtype") or x.dtype)]


define("range", _infer_range, _range, attrs={"stash_type": 1}, shaped_by=(0, 1, 2))
define("one_hot", _infer_one_hot, _one_hot, attrs={"axis": -1, "wrap": 1}, shaped_by=(1,))
define("trilu", _infer_trilu, _trilu, attrs={"upper": 1})
define("eye_like", _infer_eye_like, _eye_like, attrs={"dtype": None, "k": 0})
