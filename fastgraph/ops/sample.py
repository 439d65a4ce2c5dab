"""Sampling at places, channels first: grid_sample, affine_grid, deform_conv, roi_align. Semantics: ONNX."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..ir import Node, TensorType
from ..kernels.move.resize_tables import cubic_weight
from .common import (
    FLOAT,
    Types,
    at_least,
    fail,
    fits,
    inside,
    ints,
    need_kind,
    need_rank,
    need_vector,
    one_dtype,
    one_of,
    product,
    shown,
)
from .registry import attr, define
from .resize import converted
from .window import output_size, window_attrs
from .work import squares, window

CUBIC = -0.75
MOST_SAMPLES = 1 << 14
"""No bin of a region takes more along an axis: a greater region is taken for a mistake."""


def reflected(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Coordinates folded back into [low, high] as often as it takes."""
    span = high - low
    if span <= 0:
        return np.full_like(x, low)
    t = np.mod(x - low, 2 * span)
    return low + np.where(t > span, 2 * span - t, t)


def sampled(x: np.ndarray, where: np.ndarray, mode: str, outside: str, corners: bool = True) -> np.ndarray:
    """x [N, C, spatial...] at pixel coordinates `where` [N, P, spatial rank]: [N, C, P].

    mode: nearest, linear or cubic; outside: zeros, border or reflection (at the centers of the corner pixels,
    or at their outer edges).
    """
    n, _, *spatial = x.shape
    taps = [_taps(where[..., i], size, mode, outside, corners) for i, size in enumerate(spatial)]
    y: Any = 0
    batch = np.arange(n)[:, None]
    for choice in itertools.product(*(range(len(t)) for t in taps)):
        index, weight = zip(*(t[c] for t, c in zip(taps, choice, strict=True)), strict=True)
        picked = x[(batch, slice(None), *index)]
        y = y + picked * np.prod(np.broadcast_arrays(*weight), axis=0)[..., None]
    return np.moveaxis(np.asarray(y), 2, 1)


def _taps(where: np.ndarray, size: int, mode: str, outside: str, corners: bool) -> list[tuple[Any, Any]]:
    """(indices, weights) of each neighbor along one axis."""
    if mode == "nearest":
        places, weights = [np.rint(where)], [np.ones_like(where)]
    else:
        near = np.floor(where)
        reach = range(-1, 3) if mode == "cubic" else range(2)
        places = [near + i for i in reach]
        weights = [cubic_weight(p - where, CUBIC) if mode == "cubic" else 1 - np.abs(p - where) for p in places]
    found = []
    for place, weight in zip(places, weights, strict=True):
        if outside == "zeros":
            weight = np.where((place < 0) | (place > size - 1), 0, weight)
        elif outside == "reflection":
            place = reflected(place, 0 if corners else -0.5, size - 1 if corners else size - 0.5)
        found.append((np.clip(np.nan_to_num(place), 0, size - 1).astype(np.int64), weight))
    return found


def _infer_grid_sample(node: Node, types: Types) -> list[TensorType]:
    x, grid = types
    need_rank(node, x, 3)
    one_of(node, "mode", attr(node, "mode"), ("nearest", "linear", "cubic"))
    one_of(node, "padding_mode", attr(node, "padding_mode"), ("zeros", "border", "reflection"))
    need_kind(node, x, "biuf")
    need_kind(node, grid, FLOAT, "grid")
    if x.shape is None or grid.shape is None:
        return [TensorType(x.dtype, None)]
    if len(grid.shape) != len(x.shape):
        fail(node, f"grid {shown(grid.shape)} must have the rank of the input {shown(x.shape)}")
    fits(node, grid, "grid", x.shape[0], *grid.shape[1:-1], len(x.shape) - 2)
    if 0 in x.shape[2:] and 0 not in grid.shape:
        fail(node, f"there is nothing to sample in {shown(x.shape)}")
    return [TensorType(x.dtype, (*x.shape[:2], *grid.shape[1:-1]))]


def _grid_sample(node: Node, inputs: list[Any]) -> list[Any]:
    x, grid = inputs
    sizes = np.array(x.shape[2:], np.float64)
    unit = grid.reshape(grid.shape[0], -1, grid.shape[-1])[..., ::-1].astype(np.float64)
    corners = bool(attr(node, "align_corners"))
    where = (unit + 1) / 2 * (sizes - 1) if corners else ((unit + 1) * sizes - 1) / 2
    y = sampled(x, where, attr(node, "mode"), attr(node, "padding_mode"), corners)
    return [converted(y.reshape(*x.shape[:2], *grid.shape[1:-1]), x.dtype)]


def _infer_affine_grid(node: Node, types: Types) -> list[TensorType]:
    theta, size = types[0], node.const(1)
    need_rank(node, theta, 3, 3, "theta")
    need_kind(node, theta, FLOAT, "theta")
    need_vector(node, types[1], "size")
    if size is None:
        return [TensorType(theta.dtype, None)]
    shape = ints(size)
    if len(shape) not in (4, 5) or min(shape) < 1:
        fail(node, f"size must have 4 or 5 positive numbers, found {shape}")
    fits(node, theta, "theta", shape[0], len(shape) - 2, len(shape) - 1)
    return [TensorType(theta.dtype, (shape[0], *shape[2:], len(shape) - 2))]


def affine_places(size: list[int], corners: bool) -> np.ndarray:
    """[P, rank + 1]: the places of an output of that size, in units of -1 .. 1, the last axis first; then 1."""
    spatial = size[2:]

    def axis(count: int) -> np.ndarray:
        if corners:
            return np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
        return (np.arange(count) * 2 + 1) / count - 1

    places = np.meshgrid(*map(axis, spatial), indexing="ij")
    return np.stack([*(p.ravel() for p in reversed(places)), np.ones(math.prod(spatial))], -1)


def _deform_window(node: Node, x: Any, w: Any) -> tuple[tuple[int | None, ...], dict[str, Any]]:
    rank = len(w) - 2
    a = window_attrs(node, rank, w[2:])
    begin, end = a["pads"][:rank], a["pads"][rank:]
    return output_size(x[2:], w[2:], a["strides"], a["dilations"], begin, end), a


def _infer_deform_conv(node: Node, types: Types) -> list[TensorType]:
    x, w, offset, b, mask = types
    need_rank(node, x, 3)
    need_rank(node, w, 3, what="weight")
    need_kind(node, x, FLOAT)
    one_dtype(node, types)
    for name in ("groups", "offset_group"):
        at_least(node, name, attr(node, name), 1)
    if x.shape is None or w.shape is None:
        return [TensorType(x.dtype, None)]
    if len(x.shape) != len(w.shape):
        fail(node, f"input {shown(x.shape)} and weight {shown(w.shape)} must have the same rank")
    out, _ = _deform_window(node, x.shape, w.shape)
    groups, parts, channels = attr(node, "groups"), attr(node, "offset_group"), x.shape[1]
    if any(isinstance(d, int) and d % n for d, n in ((channels, parts), (channels, groups), (w.shape[0], groups))):
        fail(node, f"group {groups} and offset_group {parts} must divide the channels {channels} and {w.shape[0]}")
    if attr(node, "kernel_shape"):
        fits(node, w, "weight", *w.shape[:2], *attr(node, "kernel_shape"))
    fits(node, w, "weight", w.shape[0], channels // groups if isinstance(channels, int) else None, *w.shape[2:])
    taps = product(w.shape[2:])
    each = None if taps is None else taps * parts
    fits(node, offset, "offset", x.shape[0], None if each is None else each * len(out), *out)
    fits(node, mask, "mask", x.shape[0], each, *out)
    fits(node, b, "bias", w.shape[0])
    return [TensorType(x.dtype, (x.shape[0], w.shape[0], *out))]


def _deform_conv(node: Node, inputs: list[Any]) -> list[Any]:
    """Convolution whose every tap is read, by linear sampling, at its own offset and weighted by the mask."""
    x, w, offset, b, mask = inputs
    out, a = _deform_window(node, x.shape, w.shape)
    kernel, rank, n = w.shape[2:], w.ndim - 2, x.shape[0]
    groups, parts, taps = attr(node, "groups"), attr(node, "offset_group"), math.prod(kernel)
    points = math.prod(out)  # type: ignore[arg-type]
    offset = offset.reshape(n, parts, taps, rank, points)
    factor = np.ones((n, parts, taps, points), x.dtype) if mask is None else mask.reshape(n, parts, taps, points)
    starts = np.indices(out).reshape(rank, points).T * a["strides"]  # type: ignore[arg-type]
    y = np.zeros((n, groups, w.shape[0] // groups, points), np.promote_types(x.dtype, np.float32))
    weights = w.reshape(groups, -1, w.shape[1], taps)
    share = x.shape[1] // parts
    for tap, index in enumerate(np.ndindex(*kernel)):
        base = starts + np.array(index) * a["dilations"] - a["pads"][:rank]
        columns = [
            sampled(x[:, p * share : (p + 1) * share], base + offset[:, p, tap].swapaxes(1, 2), "linear", "zeros")
            * factor[:, p, tap, None]
            for p in range(parts)
        ]
        column = np.concatenate(columns, 1).reshape(n, groups, -1, points)
        y += np.einsum("ngcp,goc->ngop", column, weights[..., tap])
    y = y.reshape(n, w.shape[0], *out)  # type: ignore[misc]
    y = y if b is None else y + b.reshape(-1, *(1,) * rank)
    return [y.astype(x.dtype)]


def _infer_roi_align(node: Node, types: Types) -> list[TensorType]:
    x, rois, batch = types
    need_rank(node, x, 4, 4)
    need_rank(node, rois, 2, 2, "rois")
    need_kind(node, x, FLOAT)
    one_dtype(node, [x, rois])
    need_vector(node, batch, "batch_indices")
    one_of(node, "mode", attr(node, "mode"), ("avg", "max"))
    half = ("half_pixel", "output_half_pixel")
    one_of(node, "coordinate_transformation_mode", attr(node, "coordinate_transformation_mode"), half)
    for name, least in (("output_height", 1), ("output_width", 1), ("sampling_ratio", 0)):
        at_least(node, name, attr(node, name), least)
    fits(node, rois, "rois", batch.shape[0] if batch.shape else None, 4)
    if x.shape is not None:
        inside(node, "batch_indices", node.const(2), 0, x.shape[0])
        if 0 in x.shape[2:]:
            fail(node, f"there is nothing to sample in {shown(x.shape)}")
    size = (attr(node, "output_height"), attr(node, "output_width"))
    count, channels = rois.shape[0] if rois.shape else None, x.shape[1] if x.shape else None
    return [TensorType(x.dtype, (count, channels, *size))]


def _roi_axis(start: Any, extent: Any, bins: int, samples: int, size: int) -> tuple[np.ndarray, ...]:
    """(lower index, upper index, lower weight, upper weight) of all samples along one axis of a region."""
    cell, place = np.array(np.divmod(np.arange(bins * samples), samples), extent.dtype)
    step = extent / bins
    where = start + cell * step + (place + 0.5) * step / samples
    valid = (where >= -1) & (where <= size)
    where = np.clip(where, 0, size - 1)
    low = np.minimum(where.astype(np.int64), size - 1)
    fraction = where - low
    return low, np.minimum(low + 1, size - 1), (1 - fraction) * valid, fraction * valid


def _roi_align(node: Node, inputs: list[Any]) -> list[Any]:
    x, rois, batch = inputs
    bins, scale = (attr(node, "output_height"), attr(node, "output_width")), attr(node, "spatial_scale")
    half = attr(node, "coordinate_transformation_mode") == "half_pixel"
    y = np.zeros((len(rois), x.shape[1], *bins), x.dtype)
    for i, (image, roi) in enumerate(zip(batch, rois, strict=True)):
        # In the type of the regions: in a wider one, extents that are whole numbers of bins round up to one more.
        x1, y1, x2, y2 = roi * roi.dtype.type(scale) - roi.dtype.type(0.5 if half else 0)
        extents = [y2 - y1, x2 - x1] if half else [np.maximum(y2 - y1, 1), np.maximum(x2 - x1, 1)]
        ratio = attr(node, "sampling_ratio")
        samples = [ratio or math.ceil(e / n) for e, n in zip(extents, bins, strict=True)]
        if min(samples) < 1:
            continue
        if max(samples) > MOST_SAMPLES:
            fail(node, f"a region would take {max(samples)} samples along an axis of each bin")
        rows, columns = (_roi_axis(*v) for v in zip((y1, x1), extents, bins, samples, x.shape[2:], strict=True))
        corners = [
            x[image][:, rows[r][:, None], columns[c]] * (rows[r + 2][:, None] * columns[c + 2])
            for r in (0, 1)
            for c in (0, 1)
        ]
        total = sum(corners) if attr(node, "mode") == "avg" else np.maximum.reduce(corners)
        cells = np.asarray(total).reshape(-1, bins[0], samples[0], bins[1], samples[1])
        y[i] = cells.mean(axis=(2, 4)) if attr(node, "mode") == "avg" else cells.max(axis=(2, 4))
    return [y]


define(
    "grid_sample", _infer_grid_sample, _grid_sample, inputs=(2, 2),
    attrs={"align_corners": 0, "mode": "linear", "padding_mode": "zeros"},
)  # fmt: skip
define("affine_grid", _infer_affine_grid, inputs=(2, 2), attrs={"align_corners": 0}, shaped_by=(1,))
define(
    "deform_conv", _infer_deform_conv, _deform_conv, inputs=(3, 5),
    attrs={"groups": 1, "offset_group": 1, "strides": None, "dilations": None, "pads": None, "kernel_shape": None},
    weights=1, bias=3, work=window(1),
)  # fmt: skip
define(
    "roi_align", _infer_roi_align, _roi_align, inputs=(3, 3),
    attrs={
        "coordinate_transformation_mode": "half_pixel", "mode": "avg", "output_height": 1, "output_width": 1,
        "sampling_ratio": 0, "spatial_scale": 1.0,
    },
    work=squares,
)  # fmt: skip
