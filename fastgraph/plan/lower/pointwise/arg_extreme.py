"""arg_max and arg_min."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....ops.registry import attr
from ..registry import Emit, lowers
from .calls import Axis, axis, call_along, extreme


def _match(node: Node) -> Axis | None:
    x, out = node.x.type, node.out.type
    if not x.concrete or not x.dims or x.dtype not in (np.float32, np.uint8, np.int8) or not x.size:
        return None
    if attr(node, "select_last_index") or not out.concrete or out.dtype != np.int64 or not out.size:
        return None
    at = attr(node, "axis") % len(x.dims)
    return axis(x.dims, at, at + 1)


@lowers("arg_max", "arg_min", match=_match)
def arg_extreme(e: Emit, node: Node, along: Axis) -> None:
    """The first of the largest (smallest) along an axis; a NaN is both."""
    element = "f32" if node.x.type.dtype == np.float32 else "byte"
    call_along(e, node, "arg_extreme", {"element": element}, along, **extreme(node.x, node.op == "arg_min"))
