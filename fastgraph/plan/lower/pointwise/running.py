"""Running sums and products."""

from __future__ import annotations

from ....ir import Node
from ....kernels.pointwise.rows import RUNS
from ....ops.registry import attr
from ..registry import Emit, Slot, lowers
from .along import Axis, axis, call_along, element, is_wide


def _match(node: Node) -> Axis | None:
    x, at = node.x.type, node.const(1)
    if not is_wide(x) or not node.out.type.concrete or not x.size or not x.dims or at is None:
        return None
    first = int(at.reshape(-1)[0]) % len(x.dims)
    return axis(x.dims, first, first + 1)


@lowers("cum_sum", "cum_prod", match=_match)
def running(e: Emit, node: Node, along: Axis) -> None:
    flags: dict[str, Slot] = {name: int(attr(node, name)) for name in ("exclusive", "reverse")}
    call_along(e, node, "running", {"element": element(node.x)}, along, operation=RUNS.index(node.op[4:]), **flags)
