"""Chains of elementwise steps, softmax, reductions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...ir import Node, Value
from ...kernels.pointwise.elementwise_shape import broadcast, loops, strides_of
from .registry import Arg, Emit, is_f32, last, lowers, row_count


def _fused(node: Node) -> bool:
    """Whether the kernel has enough loops for this broadcast, even if the rows of all operands lie apart."""
    if not is_f32(node) or not node.out.type.size:
        return False
    dims = node.out.type.dims

    def apart(value: Value) -> tuple[int, ...]:
        return strides_of(value.type.dims, last(value) + 1)

    xs = [broadcast(v.type.dims, apart(v), dims) for v in node.inputs if v is not None]
    return loops(dims, apart(node.out), xs) is not None


@lowers("fused", match=_fused, strided_in=True, strided_out=True, in_place=True)
def fused(e: Emit, node: Node, _: Any) -> None:
    out = node.out
    inputs = [v for v in node.inputs if v is not None]
    spread = [broadcast(v.type.dims, strides_of(v.type.dims, e.stride(v)), out.type.dims) for v in inputs]
    plan = loops(out.type.dims, strides_of(out.type.dims, e.stride(out)), spread)
    assert plan is not None
    record: list = list(plan.record(-1, [-2 - i for i in range(len(inputs))]))
    addresses = {-1: e.address(out), **{-2 - i: e.address(v) for i, v in enumerate(inputs)}}
    e.call("elementwise", {"chain": node.attrs["chain"], "kinds": plan.kinds}, [addresses.get(x, x) for x in record])


def _last_dense(node: Node) -> tuple[int, int, int]:
    """(outer, n, inner) around the node's axis."""
    dims = node.x.type.dims
    axis = node.attrs.get("axis", -1) % len(dims)
    return prod(dims[:axis]), dims[axis], prod(dims[axis + 1 :])


@lowers("softmax", "log_softmax", match=lambda node: is_f32(node) and node.out.type.size > 0 < len(node.x.type.dims))
def softmax(e: Emit, node: Node, _: Any) -> None:
    outer, n, inner = _last_dense(node)
    args: dict[str, Arg] = {
        "y": e.address(node.out), "x": e.address(node.x), "outer": outer, "n": n, "inner": inner,
        "y_outer": n * inner, "y_axis": inner, "x_outer": n * inner, "x_axis": inner,
    }  # fmt: skip
    e.kernel("softmax", {"log": node.op == "log_softmax", "last": inner == 1}, args)


REDUCTIONS: dict[str, tuple[str, tuple]] = {
    "reduce_mean": ("mean", ()), "reduce_sum": ("sum", ()), "reduce_max": ("max", ()), "reduce_min": ("min", ()),
    "reduce_prod": ("prod", ()), "reduce_l1": ("sum_abs", ()), "reduce_l2": ("sum_square", (("sqrt", 0),)),
    "reduce_sum_square": ("sum_square", ()), "reduce_log_sum": ("sum", (("log", 0),)),
    "reduce_log_sum_exp": ("log_sum_exp", ()),
}  # fmt: skip
"""Operator -> the kernel's reduction and the chain that ends it."""


def reduced(node: Node) -> tuple[int, int, int] | None:
    """(outer, n, inner) when the axes lie side by side, extents of 1 aside."""
    axes, dims = node.const(1), node.x.type.dims
    if axes is None or axes.size == 0:
        if node.has(1) and axes is None or node.attrs.get("noop_with_empty_axes"):
            return None
        axes = np.arange(len(dims))
    chosen = sorted({int(a) % len(dims) for a in axes.ravel() if dims[int(a) % len(dims)] != 1})
    if not chosen:
        return row_count(node.x) * last(node.x), 1, 1
    first, final = chosen[0], chosen[-1]
    if any(dims[a] != 1 and a not in chosen for a in range(first, final)):
        return None
    return prod(dims[:first]), prod(dims[first : final + 1]), prod(dims[final + 1 :])


def _reduces(node: Node) -> bool:
    values = [node.x, node.out]
    plain = all(v.type.concrete and v.type.dtype == np.float32 and v.type.size for v in values)
    return plain and len(node.inputs) <= 2 and reduced(node) is not None


@lowers(*REDUCTIONS, match=_reduces)
def reduce(e: Emit, node: Node, _: Any) -> None:
    shape = reduced(node)
    assert shape is not None
    outer, n, inner = shape
    op, chain = REDUCTIONS[node.op]
    args: dict[str, Arg] = {
        "y": e.address(node.out), "x": e.address(node.x), "outer": outer, "n": n, "inner": inner,
        "y_outer": inner, "x_outer": n * inner, "x_axis": inner,
    }  # fmt: skip
    e.kernel("reduce", {"op": op, "last": inner == 1, "chain": join(chain, node.attrs.get("chain", ()))}, args)


def join(first: tuple, then: tuple) -> tuple:
    """The chain of one value that does `first`, then `then`."""
    count = len(first)
    moved = ((s[0], *(o if isinstance(o, float) else o + count for o in s[1:])) for s in then)
    return (*first, *moved)
