"""top_k, and what sorts by it."""

from __future__ import annotations

from math import prod

import numpy as np

from ....ir import Node
from ....kernels.move.rows import NUMBERS, entry_bytes
from ....ops.registry import attr
from ..registry import Emit, lowers


def _kind(node: Node) -> str | None:
    """The element type, where the kernel knows it and there is something to find."""
    x, out = node.x.type, node.out.type
    if not x.concrete or not out.concrete or not out.size or x.dtype is None or x.quant != out.quant:
        return None
    at_run_time = [v for v in node.inputs[1:] if v is not None and v.data is None]
    if any(v.type.dtype != np.int64 for v in at_run_time):
        return None
    kind = f"{x.dtype.kind}{8 * x.dtype.itemsize}"
    return kind if kind in NUMBERS and x.dims[attr(node, "axis")] < 1 << 32 else None


@lowers("top_k", match=_kind)
def top_k(e: Emit, node: Node, kind: str) -> None:
    """Values and places, sorted."""
    x, axis = node.x.type, attr(node, "axis") % len(node.x.type.dims)
    wide, k = x.itemsize == 8, node.out.type.dims[axis]
    room = -(-k * entry_bytes(wide) // 64) * 64
    values, places = node.outputs
    wanted, count = (*node.inputs[1:], None)[:2]
    at_run_time = {"count": count, "wanted": None if wanted is None or wanted.data is not None else wanted}
    extents = {"outer": prod(x.dims[:axis]), "n": x.dims[axis], "inner": prod(x.dims[axis + 1 :]), "k": k}
    how = {"kind": NUMBERS.index(kind), "size": x.itemsize, "least": int(not attr(node, "largest"))}
    ends = {"values": values, "places": places, "x": node.x}
    scratch = {"scratch": e.scratch(e.threads * room), "scratch_bytes": room}
    e.kernel("top_k", {"wide": wide}, {**ends, **at_run_time, **extents, **how, **scratch})
