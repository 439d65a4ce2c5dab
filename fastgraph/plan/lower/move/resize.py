"""Resize: nearest as a copy by tables of indices, linear and cubic as weighted sums, axis by axis.

Bytes of one quantization are resized as stored numbers: the weights of an output sum to 1.
"""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....ir.quantization import to_stored
from ....kernels.move.copy_plan import Move
from ....kernels.move.resize_plan import resized
from ....kernels.move.resize_tables import Axis, ResizeTable
from ....kernels.move.take_plan import taken
from ....ops.registry import attr
from ....ops.resize import converted, indices_of, sampled_axes, table_of
from ...quantized import per_tensor, stored_bounds, zero_point
from ..elements import element
from ..moves import bits, emit_move, movable_by_constants
from ..registry import Emit, lowers


def _axes(node: Node) -> list[Axis] | None:
    """The axes to resample, where there are kernels for it."""
    if not movable_by_constants(node) or node.x.type.itemsize > 8 or not node.out.type.size or not node.x.type.size:
        return None
    return sampled_axes(node, node.x.type.dims, *(node.const(i) for i in (1, 2, 3)))


def _nearest(node: Node) -> Move | None:
    axes = _axes(node)
    if axes is None or attr(node, "mode") != "nearest":
        return None
    x = node.x.type
    indices: list[np.ndarray | None] = [None] * len(x.dims)
    for axis in axes:
        indices[axis.axis] = indices_of(node, axis)
    fill = np.array([attr(node, "extrapolation_value")])
    stored = converted(fill, x.element) if x.quant is None else to_stored(fill, x.element, x.quant)
    return taken(x.dims, indices, x.itemsize, bits(stored))


@lowers("resize", match=_nearest)
def nearest(e: Emit, node: Node, move: Move) -> None:
    emit_move(e, move, e.address(node.x), e.address(node.out))


def _tables(node: Node) -> dict[int, ResizeTable] | None:
    """The table of each axis; for f32 or bytes of one scale, crops along one axis only."""
    axes = _axes(node)
    if not axes or attr(node, "mode") == "nearest":
        return None
    if len(axes) > 1 and attr(node, "coordinate_transformation_mode") == "tf_crop_and_resize":
        return None
    floats = node.x.type.dtype == np.float32
    if not floats and not per_tensor(node.x, np.uint8, np.int8):
        return None
    tables = {axis.axis: table_of(node, axis) for axis in axes}
    return tables if floats or all(map(_fits_int32, tables.values())) else None


def _fits_int32(table: ResizeTable) -> bool:
    """Whether weighted sums of bytes fit int32."""
    return bool(np.abs(table.weight).sum(axis=1).max() < 2.0**20)


@lowers("resize", match=_tables)
def weighted(e: Emit, node: Node, tables: dict[int, ResizeTable]) -> None:
    fill = attr(node, "extrapolation_value")
    if node.x.type.quant is not None:
        fill = stored_bounds(node.x.type, fill, fill)[0]
    source = e.address(node.x)
    calls = resized(node.x.type.dims, tables, fill, element(node.x), zero_point(node.x))
    for move, shape in calls:
        target = e.address(node.out) if move is calls[-1][0] else e.scratch(4 * int(np.prod(shape)))
        emit_move(e, move, source, target)
        source = target
