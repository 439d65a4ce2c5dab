"""Reductions and running sums as simpler ones, with elementwise steps before and after."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import Node, TensorType, Value
from ...ops.reduce import reduced_axes
from ...ops.registry import attr
from ..moves import shaped
from ..rewrite import Sweep, constant
from .element_types import F32, F64, I64, cast


def composed(state: Sweep, node: Node) -> bool:
    """Reductions of whole numbers and f64 as sums, with elementwise work before and after; of f32 where the axes do not
    lie side by side.
    """
    x, out = node.x, node.out
    dtype = x.type.dtype
    if not x.type.concrete or not out.type.concrete or dtype is None or not x.type.size or "chain" in node.attrs:
        return False
    if dtype.kind not in "iuf" or (node.has(1) and node.const(1) is None):
        return False
    axes = reduced_axes(node, len(x.type.dims), node.const(1)) or ()
    if dtype == F32 and (node.op == "reduce_mean" or not _apart(axes, x.type.dims)):
        return False
    real = F32 if dtype == F32 else F64
    wide = real if dtype.kind == "f" else np.dtype(np.uint64) if dtype.kind == "u" else I64

    def reduce(op: str, value: Value, keep: bool = False) -> Value:
        at = constant(out, np.array(axes, np.int64), "axes")
        dims = tuple(1 if i in axes else d for i, d in enumerate(x.type.dims)) if keep else out.type.dims
        kept = 1 if keep else attr(node, "keepdims")
        if not axes:
            return value
        kind = TensorType(value.type.dtype, dims)
        return state.add(op, [value, at], kind, node, keepdims=kept, noop_with_empty_axes=0)

    def each(op: str, *values: Value, dtype: np.dtype | None = None) -> Value:
        dims = np.broadcast_shapes(*(v.type.dims for v in values))
        return state.add(op, [*values], TensorType(dtype or values[0].type.dtype, dims), node)

    def number(like: Value, n: float) -> Value:
        return constant(out, np.array(n, like.type.dtype), "number")

    match node.op:
        case "reduce_mean":
            total = reduce("reduce_sum", cast(state, node, x, wide))
            y = each("div", total, number(total, prod(x.type.dims[a] for a in axes)))
        case "reduce_l1":
            y = reduce("reduce_sum", each("abs", x))
        case "reduce_sum_square":
            y = reduce("reduce_sum", each("mul", x, x))
        case "reduce_l2":
            total = reduce("reduce_sum", cast(state, node, each("mul", x, x), wide))
            y = each("sqrt", cast(state, node, total, real))
        case "reduce_log_sum":
            y = each("log", cast(state, node, reduce("reduce_sum", cast(state, node, x, wide)), real))
        case _:
            x = cast(state, node, x, real)
            top = reduce("reduce_max", x, keep=True)
            finite = each("less", each("abs", top), number(top, np.inf), dtype=np.dtype(np.bool_))
            top = each("where", finite, top, number(top, 0), dtype=real)
            total = reduce("reduce_sum", each("exp", each("sub", x, top)), keep=True)
            y = each("add", each("log", total), top)
            if y.type.shape != out.type.shape:
                shape = constant(out, np.array(out.type.dims, np.int64), "shape")
                y = state.add("reshape", [y, shape], TensorType(real, out.type.shape), node, allowzero=1)
    state.replace(out, cast(state, node, y, dtype))
    return True


def _apart(axes: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Whether there are no axes, or an axis that stays lies between them."""
    chosen = [a for a in axes if dims[a] != 1]
    between = range(min(chosen, default=0), max(chosen, default=-1) + 1)
    return not chosen or any(dims[a] != 1 and a not in axes for a in between)


def softmax(state: Sweep, node: Node) -> bool:
    """Of f64: exp(x - max), divided by its sum."""
    x, out = node.x, node.out
    if x.type.dtype != F64 or not x.type.concrete or not x.type.size:
        return False
    at = attr(node, "axis") % len(x.type.dims)
    axes = constant(out, np.array([at], np.int64), "axes")
    small = x.type.with_shape(tuple(1 if i == at else d for i, d in enumerate(x.type.dims)))
    top = state.add("reduce_max", [x, axes], small, node, keepdims=1, noop_with_empty_axes=0)
    moved = state.add("sub", [x, top], x.type, node)
    power = state.add("exp", [moved], x.type, node)
    total = state.add("reduce_sum", [power, axes], small, node, keepdims=1, noop_with_empty_axes=0)
    if node.op == "softmax":
        y = state.add("div", [power, total], x.type, node)
    else:
        y = state.add("sub", [moved, state.add("log", [total], small, node)], x.type, node)
    state.replace(out, y)
    return True


def axis_at_run_time(state: Sweep, node: Node) -> bool:
    """A running sum along an axis that is told at run time: along each of up to three, of which one is chosen."""
    x, at, rank = node.x, node.inputs[1], len(node.x.type.shape or ())
    assert at is not None
    if at.data is not None or not x.type.concrete or not 1 <= rank <= 3 or not x.type.size:
        return False
    if at.type.shape not in ((), (1,)):
        return False
    sums: list[Value | None] = []
    for i in range(rank):
        number = constant(node.out, np.array(i, np.int64), f"axis{i}")
        one = state.add(node.op, [x, number], x.type, node, **node.attrs)
        sums.append(shaped(state, node, one, (1, *x.type.dims)))
    stack = state.add("concat", sums, x.type.with_shape((rank, *x.type.dims)), node, axis=0)
    axis = shaped(state, node, cast(state, node, at, I64), ())
    state.replace(node.out, state.add("gather", [stack, axis], x.type, node, axis=0))
    return True
