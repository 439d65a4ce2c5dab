"""Words that look random."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....ops.registry import attr
from ..registry import Arg, Emit, lowers


def _match(node: Node) -> bool:
    states = all(v is not None and v.type.dtype == np.uint64 and v.type.size == 1 for v in node.inputs)
    return states and attr(node, "blocks") > 0


@lowers("random_words", match=_match)
def random(e: Emit, node: Node, _: bool) -> None:
    args: dict[str, Arg] = {"y": e.address(node.out)}
    args |= {name: e.address(v) for name, v in zip(("key", "high", "counter"), node.inputs, strict=True) if v}
    flags = {name: int(attr(node, name)) for name in ("blocks", "threefry", "fresh")}
    e.kernel("random", {}, {**args, **flags})
