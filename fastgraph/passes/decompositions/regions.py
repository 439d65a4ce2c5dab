"""Regions of images: where they are sampled as elementwise work, then the sampling itself."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...ir import Node, Value
from ...ops.registry import attr
from ...ops.window import window_attrs
from ...rules.operands import known, operand
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .element_types import F32, F64, I64


@rule("rare", "crop_resize")
def crop_resize(g: Sweep, node: Node) -> bool:
    """Boxes that are made at run time: the rows and columns that they take, then samples at all pairs."""
    boxes, images = node.inputs[1], operand(node, 2)
    assert boxes is not None
    if boxes.data is not None and (images is None or images.data is not None):
        return False  # a kernel's
    if not known(node.x, dtypes=[F32]) or not known(boxes, images, node.out):
        return False
    if images is not None and images.type.dtype != np.int64:
        return False
    wide = g.cast(boxes, F64) * attr(node, "scale")
    a, b, c, d = (g.cut(wide, 1, i, i + 1) for i in range(4))
    if attr(node, "boxes").endswith("width_first"):
        a, b, c, d = b, a, d, c
    if attr(node, "boxes").startswith("center"):
        tall, broad = c * 0.5, d * 0.5
        a, b, c, d = a - tall, b - broad, a + tall, b + broad
    sizes = [n - 1 if attr(node, "normalized") else 1 for n in node.x.type.dims[2:]]
    ends = zip((a, b), (c, d), sizes, attr(node, "size"), strict=True)
    places = [_places(g, low * size, high * size, n, attr(node, "sampling")) for low, high, size, n in ends]
    number = g.vector(*range(boxes.type.dims[0])) if images is None else g.shape(images, boxes.type.dims[0])
    told = {name: attr(node, name) for name in ("size", "pad_value", "every")}
    return g.becomes(g("sample_boxes", node.x, g.join(places, axis=1), number, outside="padded", **told))


def _places(g: Sweep, low: Value, high: Value, count: int, sampling: str) -> Value:
    """`ops.crop._grid`, as operators on [N, 1]."""
    i, span = np.arange(count, dtype=F64)[None], high - low
    if sampling == "offset_corners":
        return low + g.max(span, 1) / count * (i + 0.5)
    if sampling in ("default", "unalign_corners"):
        shift = 0.5 if sampling == "unalign_corners" else 0.0
        places = (span + 1) * (i + shift) / count - shift
        return low + g.min(g.max(places, g.min(span, 0)), g.max(span, 0))
    if count > 1:
        return low + span / (count - 1) * i
    return low + span * (0.5 if sampling == "align_corners" else 0)


@rule("rare", "roi_align")
def roi_align(g: Sweep, node: Node) -> bool:
    """Samples at all rows and columns of a region's bins, and their mean or maximum; as many in each bin of each."""
    rois, batch, ratio = node.inputs[1], node.inputs[2], attr(node, "sampling_ratio")
    assert rois is not None and batch is not None
    if not known(node.x, rois, node.out, dtypes=[F32]) or ratio < 1 or not known(batch, dtypes=[np.int64, np.int32]):
        return False
    bins = attr(node, "output_height"), attr(node, "output_width")
    half = attr(node, "coordinate_transformation_mode") == "half_pixel"
    wide = rois * attr(node, "spatial_scale") - (0.5 if half else 0.0)
    x1, y1, x2, y2 = (g.cut(wide, 1, i, i + 1) for i in range(4))
    axes = []
    for low, high, count, size in zip((y1, x1), (y2, x2), bins, node.x.type.dims[2:], strict=True):
        extent = high - low if half else g.max(high - low, 1)
        axes.append(_along(g, low, extent, (count, ratio), size))
    y = _sampled(g, node, axes, g.cast(batch, I64))
    n, channels = rois.type.dims[0], node.x.type.dims[1]
    apart = g.shape(y, n * channels, bins[0], ratio, bins[1], ratio)
    return g.becomes(g.mean(apart, [2, 4]) if attr(node, "mode") == "avg" else g.largest(apart, [2, 4]))


def _along(g: Sweep, low: Value, extent: Value, counts: tuple[int, int], size: int) -> tuple[Value, Value]:
    """(places, 1 where a sample counts, else 0) of all samples along an axis: [regions, bins * ratio]."""
    bins, ratio = counts
    cell, place = (n[None].astype(F32) for n in np.divmod(np.arange(bins * ratio), ratio))
    step = extent / bins
    where = low + step * cell + step * (place + F32.type(0.5)) / ratio
    met = g.cast((where >= -1) & (where <= size), F32)
    return g.min(g.max(where, 0), size - 1), met


def _sampled(g: Sweep, node: Node, axes: list[tuple[Value, Value]], batch: Value) -> Value:
    """[regions, C, rows, columns]. Of the maximum each of four neighbors counts on its own, with its weight."""
    (rows, met_rows), (columns, met_columns) = axes
    (n, height), width = rows.type.dims, columns.type.dims[1]

    def sampled(row: Value, column: Value, tall: Value, broad: Value, mode: str = "linear") -> Value:
        told: Any = {"size": (height, width), "outside": "border", **({"mode": mode} if mode == "nearest" else {})}
        y = g("sample_boxes", node.x, g.join([row, column], axis=1), batch, **told)
        return y * (g.shape(tall, n, 1, height, 1) * g.shape(broad, n, 1, 1, width))

    if attr(node, "mode") == "avg":
        return sampled(rows, columns, met_rows, met_columns)
    sides = []
    for (where, met), size in zip(axes, node.x.type.dims[2:], strict=True):
        near = g.floor(where)
        rest = where - near
        sides.append([(near, (1.0 - rest) * met), (g.min(near + 1, size - 1), rest * met)])
    corners = [sampled(row, column, tall, broad, "nearest") for row, tall in sides[0] for column, broad in sides[1]]
    return g.max(g.max(corners[0], corners[1]), g.max(corners[2], corners[3]))


@rule("rare", "deform_conv")
def deform_conv(g: Sweep, node: Node) -> bool:
    """In two dimensions: samples of the channels at the places of all taps, times a mask, times the weights."""
    x, w, offset, bias, mask = (*node.inputs, None, None)[:5]
    assert x is not None and w is not None and offset is not None
    if not known(x, dtypes=[F32]) or not known(w, offset, bias, mask, node.out) or len(x.type.dims) != 4:
        return False
    (n, channels, *image), (made, each, *kernel), out = x.type.dims, w.type.dims, node.out.type.dims[2:]
    groups, parts, taps, points = attr(node, "groups"), attr(node, "offset_group"), prod(kernel), prod(out)
    a = window_attrs(node, 2, kernel)
    starts = np.indices(out).reshape(2, points) * np.array(a["strides"])[:, None] - np.array(a["pads"][:2])[:, None]
    steps = np.indices(kernel).reshape(2, taps).T * a["dilations"]
    base = (steps[:, :, None] + starts[None]).astype(F32)
    where = g.shape(offset, n * parts, taps, 2, points) + base[None]
    where = g.turn(g.join([g.cut(where, 2, i, i + 1) for i in (1, 0)], axis=2), 0, 1, 3, 2)
    columns = g("resample", g.shape(x, n * parts, channels // parts, *image), where)
    if mask is not None:
        columns = columns * g.shape(mask, n * parts, 1, taps, points)
    rows = g.turn(g.shape(columns, n, channels * taps, points), 0, 2, 1)
    rows, flat = g.shape(rows, n * points, channels * taps), g.shape(w, made, each * taps)
    depth, own = each * taps, made // groups
    y = g.join([g.cut(rows, 1, i * depth, (i + 1) * depth) @ g.turn(g.cut(flat, 0, i * own, (i + 1) * own), 1, 0)
                for i in range(groups)], axis=1)  # fmt: skip
    y = y if bias is None else y + g.shape(bias, made)
    return g.becomes(g.turn(g.shape(y, n, points, made), 0, 2, 1))
