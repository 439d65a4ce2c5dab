"""Non-maximum suppression: of every class of every image, or of one class with its scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node, Value
from ....kernels.move.rows import BOX
from ....ops.registry import attr
from ..registry import F32, Emit, Slot, lowers

COUNT = 5
"""The input of non_max_suppression that says how many boxes there are; of box_suppression it is sigma, a constant."""


def _f32(value: Value | None) -> bool:
    return value is None or (value.type.concrete and value.type.dtype == F32 and value.type.size > 0)


def _suppresses(node: Node) -> bool:
    """f32 throughout, and boxes that there are."""
    whole = all(v.type.concrete for v in node.outputs) and node.out.type.size > 0
    return whole and all(_f32(v) for i, v in enumerate(node.inputs) if i not in (2, COUNT))


def _hard(node: Node) -> bool:
    sigma = node.const(5)
    return _suppresses(node) and (not node.has(5) or (sigma is not None and float(sigma.reshape(-1)[0]) <= 0))


def _suppress(e: Emit, node: Node, items: int, share: int, counts: Value, **more: Any) -> None:
    boxes, scores = node.inputs[:2]
    assert boxes is not None and scores is not None
    limit, least = (node.inputs[i] if len(node.inputs) > i else None for i in (3, 4))
    n, most = scores.type.dims[-1], node.out.type.dims[-1]
    kept = -(-(most + e.tier.lanes) // e.tier.lanes) * e.tier.lanes
    room = 8 * n + 4 * BOX * kept
    given = {"boxes": boxes, "scores": scores, "limit": np.zeros(1, F32) if limit is None else limit, "least": least}
    sizes = {"items": items, "share": share, "n": n, "most": most, "scratch_bytes": room}
    usual = {"found": 0, "count": 0, "wanted": 0, "empty": -1, "centered": 0, "strict": 0, "reaches": 0}
    made: dict[str, Slot] = {"places": node.out, "counts": counts, "scratch": e.scratch(e.threads * room)}
    e.kernel("suppress", {}, {**given, **sizes, **usual, **made, **more})


def _wanted(node: Node) -> bool:
    wanted = None if attr(node, "most") is None else node.inputs[2]
    count = node.inputs[COUNT] if len(node.inputs) > COUNT else None
    return _suppresses(node) and all(v is None or v.type.dtype == np.int64 for v in (wanted, count))


@lowers("non_max_suppression", match=_wanted)
def non_max_suppression(e: Emit, node: Node, _: Any) -> None:
    batch, classes, _most = node.out.type.dims
    count = node.inputs[COUNT] if len(node.inputs) > COUNT else None
    wanted = None if attr(node, "most") is None else node.inputs[2]
    more = {"centered": attr(node, "center_point_box"), "count": count, "wanted": wanted}
    _suppress(e, node, batch * classes, classes, node.outputs[1], **more)


@lowers("box_suppression", match=_hard)
def box_suppression(e: Emit, node: Node, _: Any) -> None:
    _, scores, count = node.outputs
    _suppress(e, node, 1, 1, count, found=scores, empty=0, strict=1)
