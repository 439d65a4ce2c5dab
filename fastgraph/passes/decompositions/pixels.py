"""Images of raw bytes."""

from __future__ import annotations

import numpy as np

from ...ir import Node, TensorType
from ...ops.registry import attr
from ...rules.operands import known
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .element_types import F32


@rule("other_types", "resize")
def resized_whole(g: Sweep, node: Node) -> bool:
    """Weighted sums of whole numbers of one and two bytes, which stand for themselves, in f32; truncated in the end."""
    x, dtype = node.x, node.x.type.dtype
    if dtype is None or dtype.kind not in "iu" or dtype.itemsize > 2 or attr(node, "mode") == "nearest":
        return False
    if x.type.quant is not None or not known(node.out):
        return False
    y = g("resize", g.cast(x, F32), *node.inputs[1:], type=TensorType(F32, node.out.type.shape), **node.attrs)
    return g.becomes(g.cast(g.clip(y, np.iinfo(dtype).min, np.iinfo(dtype).max), dtype))
