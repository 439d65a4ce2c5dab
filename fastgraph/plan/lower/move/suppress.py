"""Non-maximum suppression: of every class of every image, or of one class with its scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node, Value
from ....kernels.move.rows import BOX
from ....ops.registry import attr
from ..registry import F32, Emit, lowers


def _f32(value: Value | None) -> bool:
    return value is None or (value.type.concrete and value.type.dtype == F32 and value.type.size > 0)


def _suppresses(node: Node) -> bool:
    """f32 throughout, and boxes that there are."""
    whole = all(v.type.concrete for v in node.outputs) and node.out.type.size > 0
    return whole and all(_f32(v) for i, v in enumerate(node.inputs) if i != 2)


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
    e.kernel("suppress", {}, {
        "places": e.address(node.out), "counts": e.address(counts), "found": 0, "boxes": e.address(boxes),
        "scores": e.address(scores), "limit": e.constant(np.zeros(1, F32)) if limit is None else e.address(limit),
        "least": 0 if least is None else e.address(least), "items": items, "share": share, "n": n, "most": most,
        "empty": -1, "centered": 0, "strict": 0, "reaches": 0, "scratch": e.scratch(e.threads * room),
        "scratch_bytes": room, **more,
    })  # fmt: skip


@lowers("non_max_suppression", match=_suppresses)
def non_max_suppression(e: Emit, node: Node, _: Any) -> None:
    batch, classes, _most = node.out.type.dims
    _suppress(e, node, batch * classes, classes, node.outputs[1], centered=attr(node, "center_point_box"))


@lowers("box_suppression", match=_hard)
def box_suppression(e: Emit, node: Node, _: Any) -> None:
    _, scores, count = node.outputs
    _suppress(e, node, 1, 1, count, found=e.address(scores), empty=0, strict=1)
