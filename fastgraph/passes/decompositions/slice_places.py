"""Slices that are written over at places known at run time only."""

from __future__ import annotations

import numpy as np

from ...ir import Node, TensorType, Value
from ...ir.build import constant
from ...ops.registry import attr
from ...rules.moves import shaped
from ...rules.rule import rule
from ...rules.sweep import Sweep

NOWHERE = -1


@rule("early", "slice_update")
def slice_update(state: Sweep, node: Node) -> bool:
    """Given ``y = slice_update(x, u, begin, end, 1)`` with a begin or an end that is read at run time; result
    ``dynamic_update_slice(x, u, where(end - begin == extents of u, begin, -1))``, checked.
    """
    sizes = _sizes(node)
    if sizes is None:
        return False
    x, update, begin, end, _ = node.inputs
    assert x is not None and update is not None and begin is not None and end is not None
    extents, whole = np.array(x.type.dims), TensorType(begin.type.dtype, begin.type.shape)
    flags = TensorType(np.dtype(bool), begin.type.shape)

    def number(what: object) -> Value:
        return constant(node.out, np.broadcast_to(np.asarray(what, begin.type.dtype), extents.shape).copy())

    def each(op: str, *operands: Value, kind: TensorType = whole) -> Value:
        return state.add(op, list(operands), kind, node)

    def from_start(place: Value) -> Value:
        """Where negative numbers count from the end."""
        return each("where", each("less", place, number(0), kind=flags), each("add", place, number(extents)), place)

    def chosen(mask: str, those: Value, others: Value) -> Value:
        bits = constant(node.out, _bits(node, mask))
        return each("where", bits, those, others) if bits.data.any() else others  # type: ignore[union-attr]

    first, last = from_start(begin), each("min", from_start(end), number(extents))
    start = chosen("begin_mask", number(0), chosen("shrink_axis_mask", first, each("max", first, number(0))))
    stop = chosen("end_mask", number(extents), last)
    stop = chosen("shrink_axis_mask", each("add", start, number(1)), stop)
    fits = each("equal", each("sub", stop, start), number(sizes), kind=flags)
    place = each("where", fits, start, number(NOWHERE))
    full = shaped(state, node, update, sizes)
    state.write(Node("dynamic_update_slice", [x, full, place], node.outputs, {"checked": 1}, node.name))
    return True


def _bits(node: Node, mask: str) -> np.ndarray:
    """The axes that a mask names."""
    return np.array([attr(node, mask) >> axis & 1 for axis in range(len(node.x.type.dims))], bool)


def _sizes(node: Node) -> tuple[int, ...] | None:
    """The update's extents along the axes of x; None where all places are constants, or a node is left as it is."""
    x, update, begin, end, _ = node.inputs
    steps = node.const(4)
    assert x is not None and update is not None and begin is not None and end is not None
    dims = x.type.dims if x.type.concrete else ()
    if begin.data is not None and end.data is not None or steps is None or np.any(steps != 1):
        return None
    if not dims or begin.type.dtype != end.type.dtype or not update.type.concrete or update.type.quant != x.type.quant:
        return None
    if any(v.type.shape != (len(dims),) for v in (begin, end)) or attr(node, "ellipsis_mask") | attr(
        node, "new_axis_mask"
    ):
        return None
    gone, left = _bits(node, "shrink_axis_mask"), list(update.type.dims)
    if len(left) != len(dims) - gone.sum():
        return None
    sizes = tuple(1 if single else left.pop(0) for single in gone)
    return sizes if all(0 < size <= n for size, n in zip(sizes, dims, strict=True)) else None
