"""Images of raw bytes."""

from __future__ import annotations

import numpy as np

from ...ir import Node, TensorType
from ...ir.build import constant
from ...ops.registry import attr
from ...rules.moves import cast
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .element_types import F32


@rule("other_types", "resize")
def resized_whole(state: Sweep, node: Node) -> bool:
    """Weighted sums of whole numbers of one and two bytes, which stand for themselves, in f32; truncated in the end."""
    x, out, sizes = node.x, node.out, node.inputs[1:]
    dtype = x.type.dtype
    if dtype is None or dtype.kind not in "iu" or dtype.itemsize > 2 or x.type.quant is not None:
        return False
    if attr(node, "mode") == "nearest" or not out.type.concrete or not out.type.size:
        return False
    real, limits = TensorType(F32, out.type.shape), np.iinfo(dtype)
    y = state.add("resize", [cast(state, node, x, F32), *sizes], real, node, **node.attrs)
    ends = [constant(out, np.array(n, F32), "end") for n in (limits.min, limits.max)]
    y = state.add("clip", [y, *ends], real, node)
    state.replace(out, state.add("cast", [y], out.type, node, to=dtype.name))
    return True
