"""Masks of attention that say no more than in which order keys come."""

from __future__ import annotations

import numpy as np

from ..ir import Node
from ..ops.registry import attr
from .rewrite import Sweep, sees


@sees("attention")
def causal_mask(state: Sweep, node: Node) -> bool:
    """Given ``attention(q, k, v, m)`` with a constant m that hides just the keys behind a query's own; result the same
    without m, causal.
    """
    mask, past = node.const(3), node.inputs[4] if node.has(4) else None
    q, k = node.x.type, node.inputs[1].type if node.inputs[1] is not None else node.x.type
    if mask is None or attr(node, "is_causal") or attr(node, "place") is not None or node.has(6):
        return False
    if len(node.outputs) > 3 or not q.concrete or not k.concrete or past is not None and not past.type.concrete:
        return False
    before = 0 if past is None else past.type.dims[2]
    rows, keys = (kind.dims[2 if len(kind.dims) == 4 else 1] for kind in (q, k))
    seen = np.tri(rows, before + keys, before, dtype=bool)
    if mask.size != seen.size or mask.shape[-2:] != seen.shape or not seen.size:
        return False
    flat = mask.reshape(seen.shape)
    if flat.dtype.kind == "b":
        fits = bool((flat == seen).all())
    else:
        fits = flat.dtype.kind == "f" and not flat[seen].any() and bool((flat[~seen] <= np.finfo(flat.dtype).min).all())
    if not fits:
        return False
    inputs = [v if i != 3 else None for i, v in enumerate(node.inputs)]
    state.write(Node(node.op, inputs, node.outputs, {**node.attrs, "is_causal": 1}, node.name))
    return True
