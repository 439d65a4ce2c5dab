"""Resize: nearest as a move by tables of places, linear and cubic as weighted taps, axis by axis.

Bytes of one quantisation are resized as stored numbers: the weights of a place sum to 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Node
from ...kernels.move import places
from ...kernels.move.coordinates import nearest_places
from ...kernels.move.taps import Taps, axis_taps, resized
from ...ops.reals import to_stored
from ...ops.registry import attr
from ...ops.resize import converted, keeps_shape
from ...ops.resize import resized as sizes_and_scales
from ..program import Ref
from .move import emit_move, itemsize, movable
from .pointwise.calls import element
from .quantized import per_tensor, quant, stored_bounds, zero_point
from .registry import Emit, lowers


def _resizes(node: Node) -> bool:
    """Constant parameters; anything that moves for nearest, f32 or bytes for the rest; crops along one axis only."""
    constant = all(v is None or v.data is not None for v in node.inputs[1:])
    plain = movable(node) and itemsize(node.x) <= 8 and node.out.type.size > 0 and node.x.type.size > 0
    if not constant or not plain:
        return False
    cropped = attr(node, "coordinate_transformation_mode") == "tf_crop_and_resize"
    roi, axes = node.const(1), attr(node, "axes") or range(len(node.x.type.dims))
    if cropped and roi is not None and roi.size != 2 * len(axes):
        return False
    if attr(node, "mode") == "nearest":
        return True
    floats = all(v.type.dtype == np.float32 for v in (node.x, node.out))
    if not _scaled(node) or cropped and len(_scaled(node)) > 1:
        return False
    return floats or _stored(node) and all(map(_held, _taps(node).values()))


def _held(taps: Taps) -> bool:
    """Whether sums of bytes stay within int32."""
    return bool(np.abs(taps.weight).sum(axis=1).max() < 2.0**20)


def _stored(node: Node) -> bool:
    same = (node.x.type.dtype, node.x.type.quant) == (node.out.type.dtype, node.out.type.quant)
    return same and per_tensor(node.x, np.uint8, np.int8)


def _scaled(node: Node) -> list[tuple[int, float, tuple[float, float]]]:
    """(axis, scale, roi) of each axis that resize changes."""
    dims = node.x.type.dims
    out, scales = sizes_and_scales(node, dims, node.const(2), node.const(3))
    if keeps_shape(node, dims, out):
        return []
    axes = [int(a) % len(dims) for a in attr(node, "axes") or range(len(dims))]
    roi = node.const(1)
    unit = np.array([[0.0] * len(axes), [1.0] * len(axes)])
    bounds = unit if roi is None or roi.size != unit.size else roi.reshape(2, -1)
    crops = attr(node, "coordinate_transformation_mode") == "tf_crop_and_resize"
    found = []
    for i, axis in enumerate(axes):
        if out[axis] != dims[axis] or scales[axis] != 1 or crops:
            found.append((axis, scales[axis], (float(bounds[0, i]), float(bounds[1, i]))))
    return found


@lowers("resize", match=_resizes)
def resize(e: Emit, node: Node, _: Any) -> None:
    if attr(node, "mode") == "nearest":
        _nearest(e, node)
        return
    taps = _taps(node)
    kind, zero, fill = "f32", 0, attr(node, "extrapolation_value")
    if node.x.type.quant is not None:
        kind, zero = element(node.x), zero_point(node.x)
        fill = stored_bounds(node.x.type, fill, fill)[0]
    steps = resized(node.x.type.dims, taps, fill, kind, zero)
    source = e.address(node.x)
    for i, (move, shape) in enumerate(steps):
        last = i == len(steps) - 1
        target: Ref = e.address(node.out) if last else e.scratch(4 * int(np.prod(shape)))
        emit_move(e, move, source, target)
        source = target


def _taps(node: Node) -> dict[int, Taps]:
    """Those of each axis that is resized."""
    dims, out = node.x.type.dims, node.out.type.dims
    return {
        axis: axis_taps(
            dims[axis], out[axis], attr(node, "mode"), attr(node, "coordinate_transformation_mode"), scale,
            attr(node, "cubic_coeff_a"), bool(attr(node, "exclude_outside")), bool(attr(node, "antialias")), roi,
        )
        for axis, scale, roi in _scaled(node)
    }  # fmt: skip


def _nearest(e: Emit, node: Node) -> None:
    dims, out, size = node.x.type.dims, node.out.type.dims, itemsize(node.x)
    at: list[np.ndarray | None] = [None] * len(dims)
    for axis, scale, roi in _scaled(node):
        at[axis] = nearest_places(
            dims[axis], out[axis], attr(node, "coordinate_transformation_mode"), attr(node, "nearest_mode"), scale, roi
        )
    fill, dtype = np.array([attr(node, "extrapolation_value")]), node.x.type.dtype
    assert dtype is not None
    quantised = node.x.type.quant is not None
    stored = to_stored(fill, dtype, quant(node.x)) if quantised else converted(fill, dtype)
    move = places.taken(dims, at, size, int(stored.view(f"u{size}")[0]))
    emit_move(e, move, e.address(node.x), e.address(node.out))
