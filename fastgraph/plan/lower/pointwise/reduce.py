"""Reductions over axes that lie side by side: of f32, and the extremes of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node
from ....ops.reduce import reduced_axes
from ..quantized import per_tensor
from ..registry import Arg, Emit, lowers
from ..walk import f32_bits, table, walker
from .calls import Axis, axis, call_along, extreme

Chain = tuple[tuple[Any, ...], ...]

REDUCTIONS: dict[str, tuple[str, Chain]] = {
    "reduce_mean": ("sum", ()), "reduce_sum": ("sum", ()), "reduce_max": ("max", ()), "reduce_min": ("min", ()),
    "reduce_prod": ("prod", ()), "reduce_l1": ("sum_abs", ()), "reduce_l2": ("sum_square", (("sqrt", 0),)),
    "reduce_sum_square": ("sum_square", ()), "reduce_log_sum": ("sum", (("log", 0),)),
    "reduce_log_sum_exp": ("log_sum_exp", ()),
}  # fmt: skip
"""Operator -> the kernel's reduction and the chain that ends it."""


def reduced(node: Node) -> Axis | None:
    """What a reduction goes along, when its axes are known and lie side by side, extents of 1 aside."""
    if node.has(1) and node.const(1) is None:
        return None
    dims = node.x.type.dims
    axes = reduced_axes(node, len(dims), node.const(1))
    if axes is None:
        return None
    chosen = [a for a in axes if dims[a] != 1]
    first, end = (min(chosen), max(chosen) + 1) if chosen else (0, 0)
    if any(dims[a] != 1 and a not in chosen for a in range(first, end)):
        return None
    return axis(dims, first, end)


def _match(node: Node) -> Axis | None:
    plain = all(v.type.concrete and v.type.dtype == np.float32 and v.type.size for v in (node.x, node.out))
    return reduced(node) if plain and len(node.inputs) <= 2 else None


@lowers(*REDUCTIONS, match=_match)
def reduce(e: Emit, node: Node, along: Axis) -> None:
    op, chain = REDUCTIONS[node.op]
    joined = join(chain, node.attrs.get("chain", ()))
    walk: dict[str, Arg] = {"walk": walker(e), "table": table(e, joined, [None])} if joined else {"walk": 0, "table": 0}
    divisor = f32_bits(along[1] if node.op == "reduce_mean" else 1)
    call_along(e, node, "reduce", {"op": op}, along, divisor=divisor, **walk)


def join(first: Chain, then: Chain) -> Chain:
    """The chain of one value that does `first`, then `then`."""
    count = len(first)
    moved = ((s[0], *(o if isinstance(o, float) else o + count for o in s[1:])) for s in then)
    return (*first, *moved)


def _match_bytes(node: Node) -> Axis | None:
    x, out = node.x.type, node.out.type
    same = (x.dtype, x.quant) == (out.dtype, out.quant)
    stored = per_tensor(node.x, np.uint8, np.int8) if x.quant is not None else x.dtype in (np.bool_, np.uint8, np.int8)
    plain = x.concrete and out.concrete and x.size > 0 and "chain" not in node.attrs
    return reduced(node) if plain and same and stored and len(node.inputs) <= 2 else None


@lowers("reduce_max", "reduce_min", match=_match_bytes)
def reduce_bytes(e: Emit, node: Node, along: Axis) -> None:
    """Bytes are compared as they are stored; bools give any and all."""
    call_along(e, node, "reduce_bytes", {}, along, **extreme(node.x, node.op == "reduce_min"))
