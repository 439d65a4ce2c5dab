"""Regions of images: where they are sampled as elementwise work, then the sampling itself."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...ir import Node, TensorType, Value
from ...ir.build import constant
from ...ops.registry import attr
from ...ops.window import window_attrs
from ...rules.moves import cast, shaped, turn
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .element_types import F32, F64, I64
from .open_weights import cut_out

Do = Callable[..., Value]


def _writer(state: Sweep, node: Node, dtype: np.dtype) -> Do:
    """do(op, *operands) writes an operator on values and numbers of one type, which are broadcast."""

    def do(op: str, *values: Value | np.ndarray | float) -> Value:
        own = [v if isinstance(v, Value) else constant(node.out, np.asarray(v, dtype), "number") for v in values]
        dims = np.broadcast_shapes(*(v.type.dims for v in own))
        return state.add(op, [*own], TensorType(dtype, dims), node)

    return do


def _known(node: Node, *values: Value | None) -> bool:
    """Whether an image of f32 and all else have known shapes, and elements."""
    every = [node.x, node.out, *(v for v in values if v is not None)]
    return node.x.type.dtype == F32 and all(v.type.concrete and v.type.size for v in every)


def _joined(state: Sweep, node: Node, rows: Value, columns: Value) -> Value:
    """The rows and columns of each box, side by side."""
    n, height = rows.type.dims
    wide = rows.type.with_shape((n, height + columns.type.dims[1]))
    return state.add("concat", [rows, columns], wide, node, axis=1)


@rule("rare", "crop_resize")
def crop_resize(state: Sweep, node: Node) -> bool:
    """Boxes that are made at run time: the rows and columns that they take, then samples at all pairs."""
    boxes, images = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    assert boxes is not None
    if boxes.data is not None and (images is None or images.data is not None):
        return False  # a kernel's
    if not _known(node, boxes, images) or (images is not None and images.type.dtype != np.int64):
        return False
    do, n = _writer(state, node, F64), boxes.type.dims[0]
    wide = do("mul", cast(state, node, boxes, F64), attr(node, "scale"))
    a, b, c, d = (cut_out(state, node, wide, [i], [1], [1], 1) for i in range(4))
    if attr(node, "boxes").endswith("width_first"):
        a, b, c, d = b, a, d, c
    if attr(node, "boxes").startswith("center"):
        tall, broad = do("mul", c, 0.5), do("mul", d, 0.5)
        a, b, c, d = do("sub", a, tall), do("sub", b, broad), do("add", a, tall), do("add", b, broad)
    sizes = [n - 1 if attr(node, "normalized") else 1 for n in node.x.type.dims[2:]]
    places = []
    for low, high, size, count in zip((a, b), (c, d), sizes, attr(node, "size"), strict=True):
        places.append(_places(do, do("mul", low, size), do("mul", high, size), count, attr(node, "sampling")))
    if images is None:
        images = constant(node.out, np.arange(n), "images")
    inputs: list[Value | None] = [node.x, _joined(state, node, *places), shaped(state, node, images, (n,))]
    told = {name: attr(node, name) for name in ("size", "pad_value", "every")}
    state.replace(node.out, state.add("sample_boxes", inputs, node.out.type, node, outside="padded", **told))
    return True


def _places(do: Do, low: Value, high: Value, count: int, sampling: str) -> Value:
    """`ops.crop._grid`, as operators on [N, 1]."""
    i, span = np.arange(count)[None], do("sub", high, low)
    if sampling == "offset_corners":
        return do("add", low, do("mul", do("div", do("max", span, 1), count), i + 0.5))
    if sampling in ("default", "unalign_corners"):
        shift = 0.5 if sampling == "unalign_corners" else 0.0
        places = do("div", do("mul", do("add", span, 1), i + shift), count)
        places = do("sub", places, shift)
        places = do("min", do("max", places, do("min", span, 0)), do("max", span, 0))
    elif count > 1:
        places = do("mul", do("div", span, count - 1), i)
    else:
        places = do("mul", span, 0.5 if sampling == "align_corners" else 0)
    return do("add", low, places)


@rule("rare", "roi_align")
def roi_align(state: Sweep, node: Node) -> bool:
    """Samples at all rows and columns of a region's bins, and their mean or maximum; as many in each bin of each."""
    rois, batch, ratio = node.inputs[1], node.inputs[2], attr(node, "sampling_ratio")
    assert rois is not None and batch is not None
    if not _known(node, rois, batch) or ratio < 1 or batch.type.dtype not in (np.int64, np.int32):
        return False
    do, bins = _writer(state, node, F32), (attr(node, "output_height"), attr(node, "output_width"))
    half = attr(node, "coordinate_transformation_mode") == "half_pixel"
    wide = do("sub", do("mul", rois, attr(node, "spatial_scale")), 0.5 if half else 0.0)
    x1, y1, x2, y2 = (cut_out(state, node, wide, [i], [1], [1], 1) for i in range(4))
    axes = []
    for low, high, count, size in zip((y1, x1), (y2, x2), bins, node.x.type.dims[2:], strict=True):
        extent = do("sub", high, low) if half else do("max", do("sub", high, low), 1)
        axes.append(_along(state, node, do, low, extent, count, size))
    y = _sampled(state, node, do, axes, cast(state, node, batch, I64))
    n, channels = rois.type.dims[0], node.x.type.dims[1]
    apart = shaped(state, node, y, (n * channels, bins[0], ratio, bins[1], ratio))
    at = constant(node.out, np.array([2, 4], np.int64), "axes")
    flat = node.out.type.with_shape((n * channels, *bins))
    op = "reduce_mean" if attr(node, "mode") == "avg" else "reduce_max"
    y = state.add(op, [apart, at], flat, node, keepdims=0, noop_with_empty_axes=0)
    state.replace(node.out, shaped(state, node, y, node.out.type.dims))
    return True


def _along(state: Sweep, node: Node, do: Do, low: Value, extent: Value, bins: int, size: int) -> tuple[Value, Value]:
    """(places, 1 where a sample counts, else 0) of all samples along an axis: [regions, bins * ratio]."""
    ratio = attr(node, "sampling_ratio")
    cell, place = np.divmod(np.arange(bins * ratio), ratio)
    step = do("div", extent, bins)
    where = do("add", do("add", low, do("mul", step, cell[None])), do("div", do("mul", step, place[None] + 0.5), ratio))
    kind, truth = where.type, TensorType(np.dtype(np.bool_), where.type.shape)
    ends = {"greater_or_equal": -1, "less_or_equal": size}
    near = [state.add(op, [where, constant(node.out, np.float32(n), op)], truth, node) for op, n in ends.items()]
    met = state.add("cast", [state.add("and", [*near], truth, node)], kind, node, to="float32")
    return do("min", do("max", where, 0), size - 1), met


def _sampled(state: Sweep, node: Node, do: Do, axes: list[tuple[Value, Value]], batch: Value) -> Value:
    """[regions, C, rows, columns]. Of the maximum each of four neighbors counts on its own, with its weight."""
    (rows, met_rows), (columns, met_columns) = axes
    n, height, width = rows.type.dims[0], rows.type.dims[1], columns.type.dims[1]
    kind = node.x.type.with_shape((n, node.x.type.dims[1], height, width))
    told = {"size": (height, width), "outside": "border"}

    def weighed(y: Value, first: Value, second: Value) -> Value:
        tall, broad = shaped(state, node, first, (n, 1, height, 1)), shaped(state, node, second, (n, 1, 1, width))
        return do("mul", y, do("mul", tall, broad))

    if attr(node, "mode") == "avg":
        places = _joined(state, node, rows, columns)
        return weighed(state.add("sample_boxes", [node.x, places, batch], kind, node, **told), met_rows, met_columns)
    sides = []
    for (where, met), size in zip(axes, node.x.type.dims[2:], strict=True):
        near = do("floor", where)
        rest = do("sub", where, near)
        far = do("min", do("add", near, 1), size - 1)
        less = do("sub", np.ones(()), rest)
        sides.append([(near, do("mul", less, met)), (far, do("mul", rest, met))])
    corners = []
    for row, tall in sides[0]:
        for column, broad in sides[1]:
            places = _joined(state, node, row, column)
            y = state.add("sample_boxes", [node.x, places, batch], kind, node, **told, mode="nearest")
            corners.append(weighed(y, tall, broad))
    return do("max", do("max", corners[0], corners[1]), do("max", corners[2], corners[3]))


@rule("rare", "deform_conv")
def deform_conv(state: Sweep, node: Node) -> bool:
    """In two dimensions: samples of the channels at the places of all taps, times a mask, times the weights."""
    x, w, offset, bias, mask = (*node.inputs, None, None)[:5]
    assert x is not None and w is not None and offset is not None
    if not _known(node, w, offset, bias, mask) or len(x.type.dims) != 4:
        return False
    (n, channels, *_), (made, each, *kernel), out = x.type.dims, w.type.dims, node.out.type.dims[2:]
    groups, parts, taps, points = attr(node, "groups"), attr(node, "offset_group"), prod(kernel), prod(out)
    a, do = window_attrs(node, 2, kernel), _writer(state, node, F32)
    starts = np.indices(out).reshape(2, points) * np.array(a["strides"])[:, None] - np.array(a["pads"][:2])[:, None]
    steps = np.indices(kernel).reshape(2, taps).T * a["dilations"]
    base = (steps[:, :, None] + starts[None]).astype(np.float32)
    where = do("add", shaped(state, node, offset, (n * parts, taps, 2, points)), base[None])
    tall, broad = (cut_out(state, node, where, [i], [1], [1], 2) for i in (1, 0))
    where = state.add("concat", [tall, broad], where.type, node, axis=2)
    where = turn(state, node, where, (0, 1, 3, 2))
    images = shaped(state, node, x, (n * parts, channels // parts, *x.type.dims[2:]))
    kind = x.type.with_shape((n * parts, channels // parts, taps, points))
    columns = state.add("resample", [images, where], kind, node)
    if mask is not None:
        columns = do("mul", columns, shaped(state, node, mask, (n * parts, 1, taps, points)))
    depth, results = each * taps, []
    rows = turn(state, node, shaped(state, node, columns, (n, channels * taps, points)), (0, 2, 1))
    rows = shaped(state, node, rows, (n * points, channels * taps))
    for g in range(groups):
        own = cut_out(state, node, rows, [g * depth], [depth], [1], 1)
        flat = shaped(state, node, w, (made, depth))
        factors = cut_out(state, node, flat, [g * made // groups], [made // groups], [1], 0)
        pair: list[Value | None] = [own, turn(state, node, factors, (1, 0))]
        results.append(state.add("matmul", pair, x.type.with_shape((n * points, made // groups)), node))
    whole = x.type.with_shape((n * points, made))
    y = results[0] if groups == 1 else state.add("concat", [*results], whole, node, axis=1)
    y = y if bias is None else do("add", y, shaped(state, node, bias, (made,)))
    y = turn(state, node, shaped(state, node, y, (n, points, made)), (0, 2, 1))
    state.replace(node.out, shaped(state, node, y, node.out.type.dims))
    return True
