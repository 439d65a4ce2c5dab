"""bounded_non_zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node
from ....kernels.move.rows import WORDS
from ..registry import Emit, Slot, lowers


def _plain(node: Node) -> bool:
    x = node.x.type
    plain = x.dtype is not None and x.dtype.kind in "biuf" and x.dtype.itemsize in WORDS and x.quant is None
    return plain and x.concrete and x.size > 0


@lowers("bounded_non_zero", match=_plain)
def bounded_non_zero(e: Emit, node: Node, _: Any) -> None:
    x, (places, count) = node.x.type, node.outputs
    assert x.dtype is not None
    ends: dict[str, Slot] = {"places": places, "count": count, "x": node.x, "dims": np.array(x.dims, np.int64)}
    how = {"rank": len(x.dims), "n": x.size, "size": x.itemsize, "real": int(x.dtype.kind == "f")}
    e.kernel("non_zero", {}, {**ends, **how})
