"""Operators that are others in disguise."""

from __future__ import annotations

import numpy as np

from ..ir import Node, TensorType, Value
from ..ops.registry import attr
from .moves import shaped, turn
from .rewrite import Sweep, also_quantized, constant


def affine_grid(state: Sweep, node: Node) -> bool:
    """Given ``y = affine_grid(theta, size)``; result ``theta @ places``, turned."""
    from ..ops.sample import affine_places

    size = node.const(1)
    dtype = node.x.type.dtype
    if size is None or not node.out.type.concrete or dtype not in (np.float32, np.float64) or not node.x.type.size:
        return False
    places = affine_places(size.ravel().tolist(), bool(attr(node, "align_corners"))).T.astype(dtype)
    n, rank, _ = node.x.type.dims
    rows = shaped(state, node, node.x, (n * rank, rank + 1))
    flat = rows.type.with_shape((n * rank, places.shape[1]))
    both: list[Value | None] = [rows, constant(node.out, np.ascontiguousarray(places), "places")]
    y = shaped(state, node, state.add("matmul", both, flat, node), (n, rank, places.shape[1]))
    state.replace(node.out, shaped(state, node, turn(state, node, y, (0, 2, 1)), node.out.type.dims))
    return True


@also_quantized
def svdf(state: Sweep, node: Node) -> bool:
    """What filters make of x is put behind what they remember; the sum of that times weights, over a unit's filters."""
    x, memory, feature, time, bias = (*node.inputs, None)[:5]
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    real = TensorType(np.dtype(np.float32))
    full = all(v.type.concrete and v.type.size and (v.type.quant or v.type.dtype == real.dtype) for v in values)
    if not full or x is None or memory is None or feature is None or time is None or len(node.outputs) != 2:
        return False
    (batch, units), (filters, length) = node.out.type.dims, time.type.dims
    newest = state.add("dense", [x, feature, None], memory.type.with_shape((batch, filters)), node)
    kept = shaped(state, node, newest, (batch * filters, 1))
    if length > 1:
        lines = shaped(state, node, memory, (batch * filters, length))
        at = [constant(node.out, np.array([n], np.int64), "at") for n in (1, length, 1)]
        older = state.add("slice", [lines, *at], memory.type.with_shape((batch * filters, length - 1)), node)
        kept = state.add("concat", [older, kept], lines.type, node, axis=1)
    weighed = state.add("mul", [shaped(state, node, kept, (batch, filters, length)), time],
                        real.with_shape((batch, filters, length)), node)  # fmt: skip
    lines = shaped(state, node, weighed, (batch, units, filters // units * length))
    axis = constant(node.out, np.array([2], np.int64), "axis")
    y = state.add("reduce_sum", [lines, axis], real.with_shape((batch, units)), node, keepdims=0)
    state.replace(node.out, state.add("add", [y, _bias(node, bias)], node.out.type, node))
    state.replace(node.outputs[1], shaped(state, node, kept, node.outputs[1].type.dims))
    return True


def _bias(node: Node, bias: Value | None) -> Value:
    """The bias, or one that changes nothing."""
    return constant(node.out, np.zeros(1, np.float32), "bias") if bias is None else bias
