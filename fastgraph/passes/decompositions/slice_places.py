"""Updates of slices whose offsets are known at run time only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Node, Value
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep

NOWHERE = -1


@rule("early", "slice_update")
def slice_update(g: Sweep, node: Node) -> bool:
    """Given ``y = slice_update(x, u, begin, end, 1)`` with a begin or an end that is read at run time; result
    ``dynamic_update_slice(x, u, where(end - begin == extents of u, begin, -1))``, checked.
    """
    sizes = _sizes(node)
    if sizes is None:
        return False
    x, update, begin, end, _ = node.operands
    extents = np.array(x.type.dims, begin.type.dtype)

    def from_start(place: Value) -> Value:
        """Negative offsets, which count from the end, as offsets from the start."""
        return g.choose(place < 0, place + extents, place)

    def chosen(mask: str, those: Any, others: Value) -> Value:
        bits = _bits(node, mask)
        return g.choose(bits, those, others) if bits.any() else others

    first, last = from_start(begin), g.min(from_start(end), extents)
    start = chosen("begin_mask", 0, chosen("shrink_axis_mask", first, g.max(first, 0)))
    stop = chosen("shrink_axis_mask", start + 1, chosen("end_mask", extents, last))
    place = g.choose(g.equal(stop - start, np.array(sizes, extents.dtype)), start, NOWHERE)
    return g.becomes(g("dynamic_update_slice", x, g.shape(update, *sizes), place, type=node.out.type, checked=1))


def _bits(node: Node, mask: str) -> np.ndarray:
    """The axes that a mask names."""
    return np.array([attr(node, mask) >> axis & 1 for axis in range(len(node.x.type.dims))], bool)


def _sizes(node: Node) -> tuple[int, ...] | None:
    """The update's extents along the axes of x; None where all offsets are constant, or the node has no such form."""
    x, update, begin, end, _ = node.operands
    steps = node.const(4)
    dims = x.type.dims if x.type.concrete else ()
    if begin.data is not None and end.data is not None or steps is None or np.any(steps != 1):
        return None
    if not dims or begin.type.dtype != end.type.dtype or not update.type.concrete or update.type.quant != x.type.quant:
        return None
    if any(v.type.shape != (len(dims),) for v in (begin, end)):
        return None
    if attr(node, "ellipsis_mask") or attr(node, "new_axis_mask"):
        return None
    gone, left = _bits(node, "shrink_axis_mask"), list(update.type.dims)
    if len(left) != len(dims) - gone.sum():
        return None
    sizes = tuple(1 if single else left.pop(0) for single in gone)
    return sizes if all(0 < size <= n for size, n in zip(sizes, dims, strict=True)) else None
