"""softmax and log_softmax."""

from __future__ import annotations

from ....ir import Node
from ..registry import Emit, is_f32, lowers
from .along import Axis, axis, call_along


def _match(node: Node) -> Axis | None:
    dims = node.x.type.dims if is_f32(node) else ()
    if not dims or not node.out.type.size:
        return None
    at = node.attrs.get("axis", -1) % len(dims)
    return axis(dims, at, at + 1)


@lowers("softmax", "log_softmax", match=_match)
def softmax(e: Emit, node: Node, along: Axis) -> None:
    call_along(e, node, "softmax", {"log": node.op == "log_softmax"}, along)
