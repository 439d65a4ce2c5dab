"""Resize: nearest, linear and cubic sampling, one axis at a time. Semantics: ONNX Resize."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir import Dim, Node, TensorType
from ..kernels.move.coordinates import COORDINATES, NEAREST, nearest_indices
from ..kernels.move.resize_tables import Axis, ResizeTable, resize_table
from . import check
from .inference import Types, axes_of
from .registry import Quant, attr, define, fail
from .work import resize

MODES = ("nearest", "linear", "cubic")
POLICIES = ("stretch", "not_larger", "not_smaller")


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    axes = attr(node, "axes")
    return tuple(range(rank)) if not axes else axes_of(node, axes, rank)


def _present(array: Any) -> bool:
    return array is not None and array.size > 0


def resized(node: Node, shape: Any, scales: Any, sizes: Any) -> tuple[list[Dim], list[float]]:
    """(output extents, scale of every axis). Unknown extents give None and scale 1."""
    axes = _axes(node, len(shape))
    given = scales if _present(scales) else sizes
    if _present(scales) == _present(sizes):
        fail(node, "needs one of scales and sizes")
    if given.size != len(axes):
        fail(node, f"scales or sizes must have {len(axes)} numbers, found {given.tolist()}")
    if (given < 0).any() or (given is scales and not (np.isfinite(given).all() and (given > 0).all())):
        fail(node, f"scales and sizes must be positive, found {given.tolist()}")
    extents, policy = [shape[axis] for axis in axes], attr(node, "keep_aspect_ratio_policy")
    if given is scales:
        found = [_scaled(extent, scale) for extent, scale in zip(extents, given.tolist(), strict=True)]
    elif policy == "stretch":
        found = [(int(n), int(n) / d if isinstance(d, int) and d else 1.0) for n, d in zip(given, extents, strict=True)]
    else:
        found = _in_proportion(extents, [int(n) for n in given], min if policy == "not_larger" else max)
    out, factors = list(shape), [1.0] * len(shape)
    for axis, (extent, factor) in zip(axes, found, strict=True):
        out[axis], factors[axis] = extent, factor
    return out, factors


def _scaled(extent: Dim, scale: float) -> tuple[Dim, float]:
    if not isinstance(extent, int):
        return (extent if scale == 1 else None), scale
    # In f32, as ONNX's shape inference and onnxruntime: 10 * f32(0.7) is 7.
    return math.floor(np.float32(extent) * np.float32(scale)), scale


def _in_proportion(extents: list[Dim], wanted: list[int], choose: Callable[..., Any]) -> list[tuple[Dim, float]]:
    """Extents that are as near to those that are wanted as one scale, chosen from that of each axis, gives."""
    known = [d for d in extents if isinstance(d, int)]
    if len(known) < len(extents):
        return [(None, 1.0)] * len(extents)
    scale = choose(np.float32(n) / np.float32(max(d, 1)) for n, d in zip(wanted, known, strict=True))
    return [(math.floor(float(scale * np.float32(d)) + 0.5), float(scale)) for d in known]


@check.takes("x, roi? f 1, scales? f 1, sizes? iu 1")
def _infer_resize(node: Node, types: Types) -> list[TensorType]:
    x = types[0]
    for name, allowed in (
        ("mode", MODES),
        ("nearest_mode", NEAREST),
        ("coordinate_transformation_mode", COORDINATES),
        ("keep_aspect_ratio_policy", POLICIES),
    ):
        check.one_of(node, name, attr(node, name), allowed)
    if attr(node, "coordinate_transformation_mode") == "tf_crop_and_resize":
        if types[1] is None:
            fail(node, "tf_crop_and_resize crops to a roi, which is absent")
        wanted = None if x.shape is None else 2 * len(_axes(node, len(x.shape)))
        check.shape(node, types[1], "roi, the starts and then the ends of all axes that are resized,", wanted)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    scales, sizes = node.const(2), node.const(3)
    if scales is None and sizes is None:
        return [TensorType(x.dtype, (None,) * len(x.shape))]
    return [TensorType(x.dtype, tuple(resized(node, x.shape, scales, sizes)[0]))]


def keeps_shape(node: Node, shape: Any, out: Any) -> bool:
    """Whether x is copied as it is, as onnxruntime does whatever the scales are; a crop to the same size is a crop."""
    return tuple(shape) == tuple(out) and not _crops(node)


def _crops(node: Node) -> bool:
    return attr(node, "coordinate_transformation_mode") == "tf_crop_and_resize"


def sampled_axes(node: Node, shape: Sequence[int], roi: Any, scales: Any, sizes: Any) -> list[Axis]:
    """The axes of a concrete x that resize changes."""
    out, factor = resized(node, shape, scales, sizes)
    if keeps_shape(node, shape, out):
        return []
    crops, axes = _crops(node), _axes(node, len(shape))
    parts = np.asarray(roi, float).reshape(2, len(axes)).T.tolist() if crops else [(0.0, 1.0)] * len(axes)
    found = []
    for axis, (start, end) in zip(axes, parts, strict=True):
        n_out = out[axis]
        assert isinstance(n_out, int)
        if crops or n_out != shape[axis] or factor[axis] != 1:
            found.append(Axis(shape[axis], n_out, factor[axis], (start, end), axis))
    return found


def indices_of(node: Node, axis: Axis) -> np.ndarray:
    """The input that each output along an axis copies in mode nearest; -1 for the extrapolation value."""
    mode, nearest = attr(node, "coordinate_transformation_mode"), attr(node, "nearest_mode")
    return nearest_indices(axis.n_in, axis.n_out, mode, nearest, axis.scale, axis.roi)


def table_of(node: Node, axis: Axis) -> ResizeTable:
    """The indices and weights of the inputs of each output along an axis, in modes linear and cubic."""
    mode, coordinates, a = (attr(node, name) for name in ("mode", "coordinate_transformation_mode", "cubic_coeff_a"))
    exclude, antialias = bool(attr(node, "exclude_outside")), bool(attr(node, "antialias"))
    return resize_table(axis, mode, coordinates, a, exclude, antialias)


def _resize(node: Node, inputs: list[Any]) -> list[Any]:
    x, roi, scales, sizes = inputs
    axes = sampled_axes(node, x.shape, roi, scales, sizes)
    out = list(x.shape)
    for axis in axes:
        out[axis.axis] = axis.n_out
    if 0 in out or not x.size:
        return [np.zeros(out, x.dtype)]
    nearest = attr(node, "mode") == "nearest"
    y = x if nearest or not axes else x.astype(np.promote_types(x.dtype, np.float32))
    outside = np.zeros((1,) * x.ndim, bool)
    for axis in axes:
        if nearest:
            indices = indices_of(node, axis)
            y, beyond = np.take(y, np.maximum(indices, 0), axis.axis), indices < 0
        else:
            table = table_of(node, axis)
            y, beyond = resampled(y, axis.axis, table), table.outside
        outside = outside | beyond.reshape([-1 if i == axis.axis else 1 for i in range(x.ndim)])
    if outside.any():
        y = np.where(outside, converted(np.array(attr(node, "extrapolation_value")), y.dtype), y)
    return [converted(y, x.dtype)]


def resampled(x: np.ndarray, axis: int, table: ResizeTable) -> np.ndarray:
    """Floats interpolated along one axis by the indices and weights of a table, which read nothing else."""
    weights = table.weight.astype(x.dtype).T.reshape(-1, len(table.index), *(1 for _ in x.shape[axis + 1 :]))
    y = np.zeros((*x.shape[:axis], len(table.index), *x.shape[axis + 1 :]), x.dtype)
    for places, weight in zip(table.index.T, weights, strict=True):
        y += np.take(x, places, axis) * weight
    return y


def converted(y: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Sampled values in the type of the input; integers truncate, within their range."""
    if dtype.kind in "iu" and y.dtype.kind == "f":
        limits = np.iinfo(dtype)
        return np.clip(y, limits.min, limits.max).astype(dtype)
    return y.astype(dtype, copy=False)


define(
    "resize",
    _infer_resize,
    _resize,
    attrs={
        "mode": "nearest", "coordinate_transformation_mode": "half_pixel",
        "nearest_mode": "round_prefer_floor", "cubic_coeff_a": -0.75, "exclude_outside": 0,
        "extrapolation_value": 0.0, "antialias": 0, "axes": None,
        "keep_aspect_ratio_policy": "stretch",
    },
    quant=Quant.INTEGERS, work=resize, shaped_by=(1, 2, 3),
)  # fmt: skip
