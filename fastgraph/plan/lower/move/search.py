"""top_k and non-maximum suppression."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....ir import FLOAT32, Node, Value
from ....kernels.move.rows import BOX, BUCKET_BYTES, BUCKETS, NUMBERS, WORDS, entry_bytes
from ....ops.registry import attr
from ..registry import Emit, Slot, lowers


def _kind(node: Node) -> str | None:
    """The kernels' name of the element type, where there are elements to search."""
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
    wanted, count = node.input(1), node.input(2)
    at_run_time = {"count": count, "wanted": None if wanted is None or wanted.data is not None else wanted}
    extents = {"outer": prod(x.dims[:axis]), "n": x.dims[axis], "inner": prod(x.dims[axis + 1 :]), "k": k}
    how = {"kind": NUMBERS.index(kind), "size": x.itemsize, "least": int(not attr(node, "largest"))}
    ends = {"values": values, "places": places, "x": node.x}
    scratch = {"scratch": e.scratch(e.threads * room), "scratch_bytes": room}
    e.kernel("top_k", {"wide": wide}, {**ends, **at_run_time, **extents, **how, **scratch})


def _plain(node: Node) -> bool:
    x = node.x.type
    plain = x.dtype is not None and x.dtype.kind in "biuf" and x.dtype.itemsize in WORDS and x.quant is None
    return plain and x.concrete and x.size > 0


@lowers("bounded_non_zero", match=_plain)
def bounded_non_zero(e: Emit, node: Node, _: Any) -> None:
    x, (places, count) = node.x.type, node.outputs
    ends: dict[str, Slot] = {"places": places, "count": count, "x": node.x, "dims": np.array(x.dims, np.int64)}
    how = {"rank": len(x.dims), "n": x.size, "size": x.itemsize, "real": int(x.element.kind == "f")}
    e.kernel("non_zero", {}, {**ends, **how})


COUNT = 5
"""The input of non_max_suppression with the number of real boxes; that of box_suppression is sigma, a constant."""


def _f32(value: Value | None) -> bool:
    return value is None or (value.type.concrete and value.type.dtype == FLOAT32 and value.type.size > 0)


def _suppresses(node: Node) -> bool:
    """Whether all is f32 and there are boxes."""
    whole = all(v.type.concrete for v in node.outputs) and node.out.type.size > 0
    return whole and all(_f32(v) for i, v in enumerate(node.inputs) if i not in (2, COUNT))


def _hard(node: Node) -> bool:
    sigma = node.const(5)
    return _suppresses(node) and (not node.has(5) or (sigma is not None and float(sigma.reshape(-1)[0]) <= 0))


def _suppress(e: Emit, node: Node, items: int, share: int, counts: Value, **more: Any) -> None:
    boxes, scores = node.operands[:2]
    limit, least = (node.input(i) for i in (3, 4))
    n, most = scores.type.dims[-1], node.out.type.dims[-1]
    blocks = -(-most // e.tier.lanes) + BUCKETS
    room = 8 * n + BUCKET_BYTES * (BUCKETS + 1) + 4 * (BOX + 1) * e.tier.lanes * blocks
    most_overlap = np.zeros(1, FLOAT32) if limit is None else limit
    given = {"boxes": boxes, "scores": scores, "limit": most_overlap, "least": least}
    sizes = {"items": items, "share": share, "n": n, "most": most, "scratch_bytes": room}
    usual = {"found": 0, "count": 0, "wanted": 0, "empty": -1, "centered": 0, "strict": 0, "reaches": 0}
    made: dict[str, Slot] = {"places": node.out, "counts": counts, "scratch": e.scratch(e.threads * room)}
    e.kernel("suppress", {}, {**given, **sizes, **usual, **made, **more})


def _wanted(node: Node) -> bool:
    wanted = None if attr(node, "most") is None else node.inputs[2]
    count = node.input(COUNT)
    return _suppresses(node) and all(v is None or v.type.dtype == np.int64 for v in (wanted, count))


@lowers("non_max_suppression", match=_wanted)
def non_max_suppression(e: Emit, node: Node, _: Any) -> None:
    batch, classes, _most = node.out.type.dims
    count = node.input(COUNT)
    wanted = None if attr(node, "most") is None else node.inputs[2]
    more = {"centered": attr(node, "center_point_box"), "count": count, "wanted": wanted}
    _suppress(e, node, batch * classes, classes, node.outputs[1], **more)


@lowers("box_suppression", match=_hard)
def box_suppression(e: Emit, node: Node, _: Any) -> None:
    _, scores, count = node.outputs
    _suppress(e, node, 1, 1, count, found=scores, empty=0, strict=1)
