"""Chains of elementwise steps, softmax, reductions."""

from __future__ import annotations

import numpy as np

from ...ir import Node
from ...kernels.elementwise_shape import Loops, broadcast, loops, strides_of
from .registry import Emit, is_f32, lowers


def _loops(node: Node, strides: list[tuple[int, ...]]) -> Loops | None:
    return loops(node.out.type.dims, strides[0], strides[1:])


def _fused(node: Node) -> bool:
    """Whether the kernel has enough loops for this broadcast, as it would be if all were dense."""
    if not is_f32(node) or not node.out.type.size:
        return False
    dims = node.out.type.dims
    xs = [broadcast(v.type.dims, strides_of(v.type.dims), dims) for v in node.inputs if v is not None]
    return loops(dims, strides_of(dims), xs) is not None and len(dims) <= 4


@lowers("fused", accepts=_fused, strided_in=True, strided_out=True, in_place=True)
def fused(e: Emit, node: Node) -> None:
    out = node.out
    inputs = [v for v in node.inputs if v is not None]
    spread = [broadcast(v.type.dims, strides_of(v.type.dims, e.stride(v)), out.type.dims) for v in inputs]
    plan = loops(out.type.dims, strides_of(out.type.dims, e.stride(out)), spread)
    assert plan is not None
    record: list = list(plan.record(-1, [-2 - i for i in range(len(inputs))]))
    addresses = {-1: e.address(out), **{-2 - i: e.address(v) for i, v in enumerate(inputs)}}
    e.call("elementwise", {"chain": node.attrs["chain"], "kinds": plan.kinds}, [addresses.get(x, x) for x in record])
