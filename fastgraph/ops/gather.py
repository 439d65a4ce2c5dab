"""Reading and writing at indices: gather_elements, gather_nd, scatter_*, tensor_scatter. Semantics: ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from . import check
from .inference import Types, axis_of, same_type, shown
from .registry import attr, define, fail

REDUCTIONS: dict[str, Any] = {"add": np.add, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum}
"""How an update is combined with the element at its index. `div`, which truncates integers towards 0, is not ONNX's."""


@check.takes("x, indices iu")
def _infer_gather_elements(node: Node, types: Types) -> list[TensorType]:
    _check_elements(node, types[0], types[1])
    return [TensorType(types[0].dtype, types[1].shape)]


def _check_elements(node: Node, x: TensorType, indices: TensorType) -> None:
    """ModelError unless the indices are whole numbers within `axis` of x, and their other extents within x's."""
    if x.shape is None:
        return
    axis = axis_of(node, attr(node, "axis"), len(x.shape))
    check.operand(node, indices, f"indices {len(x.shape)}")
    pairs = zip(indices.shape or (), x.shape, strict=False)
    if any(isinstance(a, int) and isinstance(b, int) and a > b for i, (a, b) in enumerate(pairs) if i != axis):
        fail(node, f"indices {shown(indices.shape)} exceed data {shown(x.shape)}")
    check.indices(node, x.shape[axis], node.const(1))


def _check_places(node: Node, shape: Any, indices: np.ndarray | None) -> None:
    """ModelError unless the index vectors along the last axis address elements of a tensor of that shape."""
    for i, extent in enumerate(shape if indices is not None else ()):
        check.indices(node, extent, indices[..., i])  # type: ignore[index]


def grid(indices: np.ndarray, axis: int) -> tuple[Any, ...]:
    """An index array for each axis: the index of each element of `indices`, with that of `axis` replaced by the
    element."""
    places: list[Any] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    places[axis] = indices
    return tuple(places)


def _gather_elements(node: Node, inputs: list[Any]) -> list[Any]:
    x, indices = inputs
    return [x[grid(indices, attr(node, "axis"))]]


@check.takes("x 1+, indices iu 1+")
def _infer_gather_nd(node: Node, types: Types) -> list[TensorType]:
    x, indices = types
    batch = attr(node, "batch_dims")
    if x.shape is None or indices.shape is None or not isinstance(indices.shape[-1], int):
        return [TensorType(x.dtype, None)]
    depth = batch + indices.shape[-1]
    if not 0 <= batch < len(indices.shape) or depth > len(x.shape):
        fail(node, f"indices {shown(indices.shape)} with batch_dims {batch} do not fit data {shown(x.shape)}")
    check.shape(node, TensorType(None, indices.shape[:batch]), "the batch of indices", *x.shape[:batch])
    _check_places(node, x.shape[batch:depth], node.const(1))
    return [TensorType(x.dtype, (*indices.shape[:-1], *x.shape[depth:]))]


def _gather_nd(node: Node, inputs: list[Any]) -> list[Any]:
    x, indices = inputs
    batch = attr(node, "batch_dims")
    lead = [
        np.arange(n).reshape([-1 if i == j else 1 for j in range(indices.ndim - 1)])
        for i, n in enumerate(x.shape[:batch])
    ]
    return [x[(*lead, *np.moveaxis(indices, -1, 0))]]


@check.takes("data, indices iu, updates")
def _infer_scatter(node: Node, types: Types) -> list[TensorType]:
    x, indices, updates = types
    check.one_of(node, "reduction", attr(node, "reduction"), ("none", *REDUCTIONS))
    if attr(node, "reduction") != "none":
        check.operand(node, x, "data biuf")
    check.one_dtype(node, [x, updates])
    if node.op == "scatter_elements":
        _check_elements(node, x, indices)
        if indices.shape is not None:
            check.shape(node, updates, "updates", *indices.shape)
        return same_type(node, types)
    check.operand(node, indices, "indices 1+")
    if x.shape is None or indices.shape is None or not isinstance(indices.shape[-1], int):
        return same_type(node, types)
    depth = indices.shape[-1]
    if depth > len(x.shape):
        fail(node, f"indices {shown(indices.shape)} do not fit data {shown(x.shape)}")
    check.shape(node, updates, "updates", *indices.shape[:-1], *x.shape[depth:])
    _check_places(node, x.shape[:depth], node.const(1))
    return same_type(node, types)


def _write(node: Node, x: np.ndarray, at: tuple[Any, ...], updates: np.ndarray) -> list[Any]:
    y = x.copy()
    reduction = attr(node, "reduction")
    if reduction == "none":
        y[at] = updates
    elif reduction == "div" and y.dtype.kind in "iu":
        reals = y.astype(np.float64)
        np.divide.at(reals, at, updates)
        return [np.trunc(reals).astype(y.dtype)]
    else:
        REDUCTIONS[reduction].at(y, at, updates)
    return [y]


def _scatter_elements(node: Node, inputs: list[Any]) -> list[Any]:
    x, indices, updates = inputs
    return _write(node, x, grid(indices, attr(node, "axis")), updates)


def _scatter_nd(node: Node, inputs: list[Any]) -> list[Any]:
    x, indices, updates = inputs
    return _write(node, x, tuple(np.moveaxis(indices, -1, 0)), updates)


def _checked_indices(node: Node, inputs: list[Any]) -> list[Any]:
    """The indices. IndexError for those outside `axis` of x; without an axis, vectors along the last axis index the
    axes of x from `batch_dims` on."""
    indices, x = inputs
    first, axis = attr(node, "batch_dims"), attr(node, "axis")
    extents = np.array(x.shape[first : first + indices.shape[-1]] if axis is None else x.shape[axis])
    wrong = (indices < 0) | (indices >= extents)
    if wrong.any():
        raise IndexError(f"index {indices[wrong].flat[0]} is outside shape {list(x.shape)}")
    return [indices]


@check.takes("indices iu, x")
def _infer_checked(node: Node, types: Types) -> list[TensorType]:
    return same_type(node, types)


@check.takes("past_cache, update, write_indices? iu 1")
def _infer_tensor_scatter(node: Node, types: Types) -> list[TensorType]:
    past, update, start = types
    check.one_dtype(node, [past, update])
    check.one_of(node, "mode", attr(node, "mode"), ("linear", "circular"))
    if past.shape is None:
        return same_type(node, types)
    axis = axis_of(node, attr(node, "axis"), len(past.shape))
    if axis == 0:
        fail(node, "axis must not be the batch's")
    check.shape(node, start, "write_indices", past.shape[0])
    if update.shape is not None:
        check.operand(node, update, f"update {len(past.shape)}")
        check.shape(node, update, "the update", *past.shape[:axis], update.shape[axis], *past.shape[axis + 1 :])
        new, old = update.shape[axis], past.shape[axis]
        if isinstance(new, int) and isinstance(old, int):
            if new > old:
                fail(node, f"an update of extent {new} does not fit a cache of {old}")
            check.inside(
                node, "write_indices", node.const(2), 0, old + 1 - new if attr(node, "mode") == "linear" else old
            )
    return same_type(node, types)


def _tensor_scatter(node: Node, inputs: list[Any]) -> list[Any]:
    """`update` written into the cache along `axis`, from each sample's write index on."""
    past, update, start = inputs
    axis = attr(node, "axis") % past.ndim
    first = np.zeros(past.shape[0], np.int64) if start is None else start
    places = first[:, None] + np.arange(update.shape[axis])
    if attr(node, "mode") == "circular":
        places = places % past.shape[axis]
    y = np.moveaxis(past, axis, 1).copy()
    y[np.arange(past.shape[0])[:, None], places] = np.moveaxis(update, axis, 1)
    return [np.moveaxis(y, 1, axis)]


define("gather_elements", _infer_gather_elements, _gather_elements, attrs={"axis": 0}, moves=True)
define("gather_nd", _infer_gather_nd, _gather_nd, attrs={"batch_dims": 0}, moves=True)
define("checked_indices", _infer_checked, _checked_indices, attrs={"axis": None, "batch_dims": 0})
_SCATTER = {"axis": 0, "reduction": "none"}
define("scatter_elements", _infer_scatter, _scatter_elements, attrs=_SCATTER, updates=True)
define("scatter_nd", _infer_scatter, _scatter_nd, attrs={"reduction": "none"}, updates=True)
define("tensor_scatter", _infer_tensor_scatter, _tensor_scatter, attrs={"axis": -2, "mode": "linear"}, updates=True)
