"""Reading and writing at indices: gather_elements, gather_nd, scatter_*, one_hot, unique. Semantics: ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from .common import (
    INT64,
    NUMBER,
    WHOLE,
    Types,
    at_least,
    axes_of,
    axis_of,
    fail,
    fits,
    inside,
    ints,
    length,
    need_kind,
    need_one,
    need_rank,
    need_vector,
    one_dtype,
    one_of,
    same_type,
    shown,
    whole,
)
from .registry import attr, define

REDUCTIONS: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
}  # fmt: skip
"""What happens to an element that an update meets. ONNX lacks div, of which integers are cut towards 0."""


def _infer_gather_elements(node: Node, types: Types) -> list[TensorType]:
    _check_elements(node, types[0], types[1])
    return [TensorType(types[0].dtype, types[1].shape)]


def _check_elements(node: Node, x: TensorType, indices: TensorType) -> None:
    """ModelError unless the indices are whole numbers within `axis` of x, and their other extents within x's."""
    need_kind(node, indices, WHOLE, "indices")
    if x.shape is None:
        return
    axis = axis_of(node, attr(node, "axis"), len(x.shape))
    need_rank(node, indices, len(x.shape), len(x.shape), "indices")
    pairs = zip(indices.shape or (), x.shape, strict=False)
    if any(isinstance(a, int) and isinstance(b, int) and a > b for i, (a, b) in enumerate(pairs) if i != axis):
        fail(node, f"indices {shown(indices.shape)} exceed data {shown(x.shape)}")
    extent = x.shape[axis]
    if isinstance(extent, int):
        inside(node, "indices", node.const(1), -extent, extent)


def _check_places(node: Node, shape: Any, indices: np.ndarray | None) -> None:
    """ModelError unless the indices along the last axis are places of a tensor of that shape."""
    for i, extent in enumerate(shape if indices is not None else ()):
        if isinstance(extent, int):
            inside(node, "indices", indices[..., i], -extent, extent)  # type: ignore[index]


def grid(indices: np.ndarray, axis: int) -> tuple[Any, ...]:
    """Indices that meet, for each element of `indices`, its own place with `axis` replaced by the element."""
    places: list[Any] = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    places[axis] = indices
    return tuple(places)


def _gather_elements(node: Node, inputs: list[Any]) -> list[Any]:
    x, indices = inputs
    return [x[grid(indices, attr(node, "axis"))]]


def _infer_gather_nd(node: Node, types: Types) -> list[TensorType]:
    x, indices = types
    need_rank(node, x, 1)
    need_rank(node, indices, 1, what="indices")
    need_kind(node, indices, WHOLE, "indices")
    batch = attr(node, "batch_dims")
    if x.shape is None or indices.shape is None or not isinstance(indices.shape[-1], int):
        return [TensorType(x.dtype, None)]
    depth = batch + indices.shape[-1]
    if not 0 <= batch < len(indices.shape) or depth > len(x.shape):
        fail(node, f"indices {shown(indices.shape)} with batch_dims {batch} do not fit data {shown(x.shape)}")
    fits(node, TensorType(None, indices.shape[:batch]), "the batch of indices", *x.shape[:batch])
    _check_places(node, x.shape[batch:depth], node.const(1))
    return [TensorType(x.dtype, (*indices.shape[:-1], *x.shape[depth:]))]


def _gather_nd(node: Node, inputs: list[Any]) -> list[Any]:
    x, indices = inputs
    batch = attr(node, "batch_dims")
    lead = [np.arange(n).reshape([-1 if i == j else 1 for j in range(indices.ndim - 1)])
            for i, n in enumerate(x.shape[:batch])]  # fmt: skip
    return [x[(*lead, *np.moveaxis(indices, -1, 0))]]


def _infer_scatter(node: Node, types: Types) -> list[TensorType]:
    x, indices, updates = types
    one_of(node, "reduction", attr(node, "reduction"), ("none", *REDUCTIONS))
    if attr(node, "reduction") != "none":
        need_kind(node, x, "biuf", "data that is reduced")
    one_dtype(node, [x, updates])
    if node.op == "scatter_elements":
        _check_elements(node, x, indices)
        if indices.shape is not None:
            fits(node, updates, "updates", *indices.shape)
        return same_type(node, types)
    need_kind(node, indices, WHOLE, "indices")
    need_rank(node, indices, 1, what="indices")
    if x.shape is None or indices.shape is None or not isinstance(indices.shape[-1], int):
        return same_type(node, types)
    depth = indices.shape[-1]
    if depth > len(x.shape):
        fail(node, f"indices {shown(indices.shape)} do not fit data {shown(x.shape)}")
    fits(node, updates, "updates", *indices.shape[:-1], *x.shape[depth:])
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
    """The indices. IndexError for those outside `axis` of x; without an axis, those along the last axis are places
    from axis `batch_dims` on."""
    indices, x = inputs
    first, axis = attr(node, "batch_dims"), attr(node, "axis")
    extents = np.array(x.shape[first : first + indices.shape[-1]] if axis is None else x.shape[axis])
    wrong = (indices < 0) | (indices >= extents)
    if wrong.any():
        raise IndexError(f"index {indices[wrong].flat[0]} is outside shape {list(x.shape)}")
    return [indices]


def _infer_checked(node: Node, types: Types) -> list[TensorType]:
    need_kind(node, types[0], WHOLE, "indices")
    return same_type(node, types)


def _infer_tensor_scatter(node: Node, types: Types) -> list[TensorType]:
    past, update, start = types
    one_dtype(node, [past, update])
    one_of(node, "mode", attr(node, "mode"), ("linear", "circular"))
    need_vector(node, start, "write_indices")
    if past.shape is None:
        return same_type(node, types)
    axis = axis_of(node, attr(node, "axis"), len(past.shape))
    if axis == 0:
        fail(node, "axis must not be the batch's")
    fits(node, start, "write_indices", past.shape[0])
    if update.shape is not None:
        need_rank(node, update, len(past.shape), len(past.shape), "the update")
        fits(node, update, "the update", *past.shape[:axis], update.shape[axis], *past.shape[axis + 1 :])
        new, old = update.shape[axis], past.shape[axis]
        if isinstance(new, int) and isinstance(old, int):
            if new > old:
                fail(node, f"an update of extent {new} does not fit a cache of {old}")
            inside(node, "write_indices", node.const(2), 0, old + 1 - new if attr(node, "mode") == "linear" else old)
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


def _infer_one_hot(node: Node, types: Types) -> list[TensorType]:
    indices, values = types[0].shape, types[2]
    need_kind(node, types[0], NUMBER, "indices")
    need_one(node, types[1], "depth", NUMBER)
    fits(node, values, "values", 2)
    depth = node.const(1)
    extent = None if depth is None else ints(depth)[0]
    at_least(node, "depth", 0 if extent is None else extent, 0)
    if indices is None:
        return [TensorType(types[2].dtype, None)]
    axis = axis_of(node, attr(node, "axis"), len(indices) + 1)
    return [TensorType(types[2].dtype, (*indices[:axis], extent, *indices[axis:]))]


def _one_hot(node: Node, inputs: list[Any]) -> list[Any]:
    """values[1] where the index is met (negative ones from the back, or with wrap=0 none), values[0] elsewhere."""
    indices, depth, values = inputs
    n, axis = ints(depth)[0], attr(node, "axis") % (indices.ndim + 1)
    # An index outside -n .. n - 1 must match nothing, so it is not wrapped.
    wrapped = np.where(indices < 0, indices + n, indices) if attr(node, "wrap") else indices
    places = np.arange(n).reshape([-1 if i == axis else 1 for i in range(indices.ndim + 1)])
    return [np.where(np.expand_dims(wrapped, axis) == places, values[1], values[0]).astype(values.dtype)]


def _infer_compress(node: Node, types: Types) -> list[TensorType]:
    x, axis = types[0], attr(node, "axis")
    need_vector(node, types[1], "the condition", "b")
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
    _, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not attr(node, "sorted"):
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return [np.take(x, first, axis), *(v.astype(np.int64) for v in (first, inverse, counts))]


def _infer_trilu(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 2)
    whole(node, 1, "k")
    return same_type(node, types)


def _trilu(node: Node, inputs: list[Any]) -> list[Any]:
    x, k = inputs
    return [(np.triu if attr(node, "upper") else np.tril)(x, 0 if k is None else _held(ints(k)[0], x.shape))]


def _held(k: int, shape: tuple[int, ...]) -> int:
    """A diagonal's number, moved to the first or last one beyond the matrix when it is further away."""
    return min(max(k, -shape[-2]), shape[-1])


def _infer_eye_like(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 2, 2)
    return [TensorType(attr(node, "dtype") or types[0].dtype, types[0].shape)]


def _eye_like(node: Node, inputs: list[Any]) -> list[Any]:
    x = inputs[0]
    return [np.eye(x.shape[0], x.shape[1], _held(attr(node, "k"), x.shape), attr(node, "dtype") or x.dtype)]


def _infer_reverse_sequence(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 2)
    need_vector(node, types[1], "sequence_lens")
    if (shape := types[0].shape) is not None:
        batch, time = axes_of(node, (attr(node, "batch_axis"), attr(node, "time_axis")), len(shape))
        fits(node, types[1], "sequence_lens", shape[batch])
        steps = shape[time]
        inside(node, "sequence_lens", node.const(1), 0, steps + 1 if isinstance(steps, int) else None)
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


def _infer_center_crop_pad(node: Node, types: Types) -> list[TensorType]:
    x, target = types[0], node.const(1)
    need_vector(node, types[1], "shape")
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
    """The middle of x, or x in the middle of zeros; of an odd difference the smaller half comes first."""
    x, target = inputs
    for axis, n in zip(_crop_axes(node, x.ndim), ints(target), strict=True):
        have = x.shape[axis]
        if n < have:
            x = np.take(x, range((have - n) // 2, (have - n) // 2 + n), axis)
        else:
            before = (n - have) // 2
            x = np.pad(x, [(before, n - have - before) if i == axis else (0, 0) for i in range(x.ndim)])
    return [x]


define("gather_elements", _infer_gather_elements, _gather_elements, inputs=(2, 2), attrs={"axis": 0})
define("gather_nd", _infer_gather_nd, _gather_nd, inputs=(2, 2), attrs={"batch_dims": 0})
define(
    "checked_indices", _infer_checked, _checked_indices, inputs=(2, 2), attrs={"axis": None, "batch_dims": 0}
)
_SCATTER = {"axis": 0, "reduction": "none"}
define("scatter_elements", _infer_scatter, _scatter_elements, inputs=(3, 3), attrs=_SCATTER)
define("scatter_nd", _infer_scatter, _scatter_nd, inputs=(3, 3), attrs={"reduction": "none"})
define("tensor_scatter", _infer_tensor_scatter, _tensor_scatter, inputs=(2, 3), attrs={"axis": -2, "mode": "linear"})
define("one_hot", _infer_one_hot, _one_hot, inputs=(3, 3), attrs={"axis": -1, "wrap": 1})
define("compress", _infer_compress, _compress, inputs=(2, 2), attrs={"axis": None})
define("non_zero", _infer_non_zero, _non_zero, inputs=(1, 1))
define("unique", _infer_unique, _unique, inputs=(1, 1), attrs={"axis": None, "sorted": 1})
define("trilu", _infer_trilu, _trilu, inputs=(1, 2), attrs={"upper": 1})
define("eye_like", _infer_eye_like, _eye_like, inputs=(1, 1), attrs={"dtype": None, "k": 0})
define(
    "reverse_sequence", _infer_reverse_sequence, _reverse_sequence, inputs=(2, 2),
    attrs={"batch_axis": 1, "time_axis": 0},
)  # fmt: skip
define("center_crop_pad", _infer_center_crop_pad, _center_crop_pad, inputs=(2, 2), attrs={"axes": None})
