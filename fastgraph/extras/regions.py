"""Regions of images pooled into bins, channels first. Semantics: ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import FLOAT32, INT64, Node, TensorType, Value
from ..ops import check
from ..ops.inference import Types, shown
from ..ops.registry import REQUIRED, attr, define, fail
from ..ops.work import squares
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep

MOST_SAMPLES = 1 << 14
"""No bin of a region takes more along an axis: a greater region is taken for a mistake."""


@check.takes("x f 4, rois 2, batch_indices iu 1")
def _infer_roi_align(node: Node, types: Types) -> list[TensorType]:
    x, rois, batch = types
    check.one_dtype(node, [x, rois])
    check.one_of(node, "mode", attr(node, "mode"), ("avg", "max"))
    half = ("half_pixel", "output_half_pixel")
    check.one_of(node, "coordinate_transformation_mode", attr(node, "coordinate_transformation_mode"), half)
    for name, least in (("output_height", 1), ("output_width", 1), ("sampling_ratio", 0)):
        check.at_least(node, name, attr(node, name), least)
    check.shape(node, rois, "rois", batch.shape[0] if batch.shape else None, 4)
    if x.shape is not None:
        check.inside(node, "batch_indices", node.const(2), 0, x.shape[0])
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
    "roi_align", _infer_roi_align, _roi_align,
    attrs={
        "coordinate_transformation_mode": "half_pixel", "mode": "avg", "output_height": 1, "output_width": 1,
        "sampling_ratio": 0, "spatial_scale": 1.0,
    },
    work=squares,
)  # fmt: skip


@rule("rare", "roi_align")
def roi_align(g: Sweep, node: Node) -> bool:
    """Samples at all rows and columns of a region's bins, and their mean or maximum; as many in each bin of each."""
    x, rois, batch, ratio = node.x, node.input(1), node.input(2), attr(node, "sampling_ratio")
    if rois is None or batch is None or not known(x, rois, node.out, dtypes=[FLOAT32]) or not known(batch) or ratio < 1:
        return False
    bins, average = (attr(node, "output_height"), attr(node, "output_width")), attr(node, "mode") == "avg"
    half = attr(node, "coordinate_transformation_mode") == "half_pixel"
    wide = rois * attr(node, "spatial_scale") - (0.5 if half else 0.0)
    x1, y1, x2, y2 = (g.cut(wide, 1, i, i + 1) for i in range(4))
    axes = []
    for low, high, count in zip((y1, x1), (y2, x2), bins, strict=True):
        extent = high - low if half else g.max(high - low, 1)
        axes.append(_along(g, low, extent, count))
    if average:
        last, places = g.transpose(x, 0, 2, 3, 1), g.join(axes, 1)
        y = g("region_means", last, places, g.cast(batch, INT64), size=bins, ratio=ratio)
        return g.becomes(g.transpose(y, 0, 3, 1, 2))
    y = _greatest(g, [_met(g, *axis) for axis in zip(axes, x.type.dims[2:], strict=True)], g.cast(batch, INT64))
    n, channels = rois.type.dims[0], x.type.dims[1]
    return g.becomes(g.largest(g.shape(y, n * channels, bins[0], ratio, bins[1], ratio), [2, 4]))


def _along(g: Sweep, low: Value, extent: Value, bins: int) -> Value:
    """The places of all samples along an axis: [regions, bins * ratio]."""
    ratio = attr(g.node, "sampling_ratio")
    cell, place = np.divmod(np.arange(bins * ratio, dtype=FLOAT32), ratio)
    step = extent / bins
    return low + step * cell[None] + step * (place[None] + 0.5) / ratio


def _met(g: Sweep, where: Value, size: int) -> tuple[Value, Value]:
    """(places within, 1 where a sample counts, else 0)."""
    met = (where >= -1) & (where <= size)
    return g.min(g.max(where, 0), size - 1), g.cast(met, FLOAT32)


Axes = list[tuple[Value, Value]]


def _samples(g: Sweep, rows: Value, columns: Value, batch: Value) -> Value:
    size = rows.type.dims[1], columns.type.dims[1]
    return g("sample_boxes", g.node.x, g.join([rows, columns], 1), batch, size=size, outside="border", mode="nearest")


def _weighed(g: Sweep, y: Value, rows: Value, columns: Value) -> Value:
    n, _, height, width = y.type.dims
    return y * (g.shape(rows, n, 1, height, 1) * g.shape(columns, n, 1, 1, width))


def _greatest(g: Sweep, axes: Axes, batch: Value) -> Value:
    """[regions, C, rows, columns]: each of four neighbors counts on its own, with its weight."""
    sides = []
    for (where, met), size in zip(axes, g.node.x.type.dims[2:], strict=True):
        near = g.floor(where)
        rest = where - near
        far = g.min(near + 1, size - 1)
        sides.append([(near, (1 - rest) * met), (far, rest * met)])
    corners = []
    for row, tall in sides[0]:
        for column, broad in sides[1]:
            corners.append(_weighed(g, _samples(g, row, column, batch), tall, broad))
    return g.max(g.max(corners[0], corners[1]), g.max(corners[2], corners[3]))


MOST = float(2**31)
"""No region reaches further."""


@check.takes("x f 4, rois 2")
def _infer_max_roi_pool(node: Node, types: Types) -> list[TensorType]:
    x, rois = types
    check.one_dtype(node, types)
    check.shape(node, rois, "rois", rois.shape[0] if rois.shape else None, 5)
    if len(attr(node, "pooled_shape")) != 2 or min(attr(node, "pooled_shape")) < 1:
        fail(node, f"pooled_shape must be two positive numbers, found {attr(node, 'pooled_shape')}")
    found = node.const(1)
    if found is not None:
        if not np.isfinite(found).all() or np.abs(found).max(initial=0) > MOST:
            fail(node, f"rois must be finite and up to {MOST:g}")
        check.inside(node, "the regions' images", found[:, 0], 0, x.shape[0] if x.shape else None)
    if not abs(attr(node, "spatial_scale")) <= MOST:
        fail(node, f"spatial_scale must be finite, found {attr(node, 'spatial_scale')}")
    count, channels = rois.shape[0] if rois.shape else None, x.shape[1] if x.shape else None
    return [TensorType(x.dtype, (count, channels, *attr(node, "pooled_shape")))]


def _max_roi_pool(node: Node, inputs: list[Any]) -> list[Any]:
    """The greatest element of each bin of each region (batch, x1, y1, x2, y2); 0 for empty bins."""
    x, rois = inputs
    bins = attr(node, "pooled_shape")
    y = np.zeros((len(rois), x.shape[1], *bins), x.dtype)
    for i, roi in enumerate(rois):
        x1, y1, x2, y2 = (int(math.floor(v * attr(node, "spatial_scale") + 0.5)) for v in roi[1:])
        rows = _bins(y1, y2, bins[0], x.shape[2])
        columns = _bins(x1, x2, bins[1], x.shape[3])
        for r, (top, bottom) in enumerate(rows):
            for c, (left, right) in enumerate(columns):
                if bottom > top and right > left:
                    y[i, :, r, c] = x[int(roi[0]), :, top:bottom, left:right].max(axis=(1, 2))
    return [y]


def _bins(first: int, last: int, count: int, size: int) -> list[tuple[int, int]]:
    step = max(last - first + 1, 1) / count
    edges = ((math.floor(i * step) + first, math.ceil((i + 1) * step) + first) for i in range(count))
    return [(min(max(a, 0), size), min(max(b, 0), size)) for a, b in edges]


define(
    "max_roi_pool",
    _infer_max_roi_pool,
    _max_roi_pool,
    attrs={"pooled_shape": REQUIRED, "spatial_scale": 1.0},
    work=squares,
)
