"""Selecting, reversing and cropping: compress, non_zero, unique, reverse_sequence, center_crop_pad. Semantics: ONNX.

`bounded_non_zero` is non_zero with a result of fixed extents, padded with zeros; passes write it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import INT64, Node, TensorType
from . import check
from .inference import Types, axes_of, axis_of, ints, length, product, same_type, shown
from .registry import attr, define, fail
from .work import in_python


@check.takes("x, condition b 1")
def _infer_compress(node: Node, types: Types) -> list[TensorType]:
    x, axis = types[0], attr(node, "axis")
    if axis is None:
        return [TensorType(x.dtype, (None,))]
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    axis = axis_of(node, axis, len(x.shape))
    extent, count = x.shape[axis], length(types[1])
    if isinstance(extent, int) and count is not None and count > extent:
        fail(node, f"a condition of {count} exceeds axis {axis} of {shown(x.shape)}")
    return [TensorType(x.dtype, (*x.shape[:axis], None, *x.shape[axis + 1 :]))]


def _compress(node: Node, inputs: list[Any]) -> list[Any]:
    x, condition = inputs
    return [np.compress(condition.astype(bool), x, attr(node, "axis"))]


def _infer_non_zero(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(INT64, (None if types[0].shape is None else len(types[0].shape), None))]


def _non_zero(node: Node, inputs: list[Any]) -> list[Any]:
    return [np.array(np.nonzero(inputs[0]), np.int64).reshape(inputs[0].ndim, -1)]


@check.takes("x 1+")
def _infer_bounded_non_zero(node: Node, types: Types) -> list[TensorType]:
    rank = None if types[0].shape is None else len(types[0].shape)
    return [TensorType(INT64, (rank, product(types[0].shape or (None,)))), TensorType(INT64, ())]


def _bounded_non_zero(node: Node, inputs: list[Any]) -> list[Any]:
    """[indices [rank, elements of x], count]: the result of non_zero, padded with zeros."""
    found = _non_zero(node, inputs)[0]
    count = found.shape[1]
    return [np.pad(found, [(0, 0), (0, inputs[0].size - count)]), np.array(count, np.int64)]


def _infer_unique(node: Node, types: Types) -> list[TensorType]:
    x, axis = types[0], attr(node, "axis")
    count = TensorType(INT64, (None,))
    if axis is None or x.shape is None:
        return [TensorType(x.dtype, (None,) if axis is None else None), count, count, count]
    axis = axis_of(node, axis, len(x.shape))
    return [TensorType(x.dtype, (*x.shape[:axis], None, *x.shape[axis + 1 :])), count, count, count]


def _unique(node: Node, inputs: list[Any]) -> list[Any]:
    """[values, first index of each, inverse, counts]; by value, or (sorted=0) by first appearance."""
    x, axis = inputs[0], attr(node, "axis")
    x = x.reshape(-1) if axis is None else x
    axis = 0 if axis is None else axis
    _, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    inverse = inverse.reshape(-1)
    if not attr(node, "sorted"):
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return [np.take(x, first, axis), *(v.astype(np.int64) for v in (first, inverse, counts))]


@check.takes("x 2+, sequence_lens iu 1")
def _infer_reverse_sequence(node: Node, types: Types) -> list[TensorType]:
    if (shape := types[0].shape) is not None:
        batch, time = axes_of(node, (attr(node, "batch_axis"), attr(node, "time_axis")), len(shape))
        check.shape(node, types[1], "sequence_lens", shape[batch])
        steps = shape[time]
        check.inside(node, "sequence_lens", node.const(1), 0, steps + 1 if isinstance(steps, int) else None)
    return same_type(node, types)


def _reverse_sequence(node: Node, inputs: list[Any]) -> list[Any]:
    x, lengths = inputs
    axes = attr(node, "time_axis"), attr(node, "batch_axis")
    x = np.moveaxis(x, axes, (0, 1))
    steps, lengths = np.arange(x.shape[0])[:, None], lengths[None, :]
    order = np.where(steps < lengths, lengths - 1 - steps, steps)
    return [np.moveaxis(x[order, np.arange(x.shape[1])[None, :]], (0, 1), axes)]


def _crop_axes(node: Node, rank: int) -> list[int]:
    axes = attr(node, "axes")
    return list(axes_of(node, range(rank) if axes is None else axes, rank))


@check.takes("x, shape iu 1")
def _infer_center_crop_pad(node: Node, types: Types) -> list[TensorType]:
    x, target = types[0], node.const(1)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    axes, out = _crop_axes(node, len(x.shape)), list(x.shape)
    wanted = [None] * len(axes) if target is None else ints(target)
    if len(wanted) != len(axes):
        fail(node, f"shape must have {len(axes)} numbers, found {wanted}")
    for axis, n in zip(axes, wanted, strict=True):
        out[axis] = n
    return [TensorType(x.dtype, tuple(out))]


def _center_crop_pad(node: Node, inputs: list[Any]) -> list[Any]:
    """The center of x where the new extent is smaller, else x centered in zeros; the smaller half of an odd difference
    comes first."""
    x, target = inputs
    for axis, n in zip(_crop_axes(node, x.ndim), ints(target), strict=True):
        have = x.shape[axis]
        if n < have:
            x = np.take(x, range((have - n) // 2, (have - n) // 2 + n), axis)
        else:
            before = (n - have) // 2
            x = np.pad(x, [(before, n - have - before) if i == axis else (0, 0) for i in range(x.ndim)])
    return [x]


define("compress", _infer_compress, _compress, attrs={"axis": None}, moves=True)
define("non_zero", _infer_non_zero, _non_zero, inputs=(1, 1))
define("bounded_non_zero", _infer_bounded_non_zero, _bounded_non_zero)
define("unique", _infer_unique, _unique, inputs=(1, 1), attrs={"axis": None, "sorted": 1}, work=in_python)
define(
    "reverse_sequence", _infer_reverse_sequence, _reverse_sequence, moves=True, attrs={"batch_axis": 1, "time_axis": 0}
)
define("center_crop_pad", _infer_center_crop_pad, _center_crop_pad, attrs={"axes": None}, shaped_by=(1,))
