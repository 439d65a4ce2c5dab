"""arg_max and arg_min."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....ops.registry import attr
from ..registry import Emit, lowers
from .along import Axis, axis, call_along, element, is_wide, signed


def _match(node: Node) -> Axis | None:
    x, out = node.x.type, node.out.type
    if not x.concrete or not x.dims or not x.size or not out.concrete or out.dtype != np.int64 or not out.size:
        return None
    if x.dtype not in (np.uint8, np.int8) and not is_wide(x):
        return None
    at = attr(node, "axis") % len(x.dims)
    return axis(x.dims, at, at + 1)


@lowers("arg_max", "arg_min", match=_match)
def arg_extreme(e: Emit, node: Node, along: Axis) -> None:
    """The first, or last, of the largest (smallest) along an axis; a NaN is both."""
    least, last = node.op == "arg_min", int(bool(attr(node, "select_last_index")))
    params = {"element": element(node.x)}
    call_along(e, node, "arg_extreme", params, along, signed=signed(node.x), least=int(least), last=last)
