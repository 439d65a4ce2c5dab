"""Reductions over axes that lie side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node
from ....ops.reduce import reduced_axes
from ...quantized import per_tensor
from ..registry import Emit, Slot, lowers
from ..walk import f32_bits, table, walker
from .along import Axis, axis, call_along, element, is_wide, signed

Chain = tuple[tuple[Any, ...], ...]
NO_WALK: dict[str, Slot] = {"walk": 0, "table": 0}

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
    walk: dict[str, Slot] = {"walk": walker(e), "table": table(e, joined, [None])} if joined else NO_WALK
    _call(e, node, along, op, divisor=f32_bits(along[1] if node.op == "reduce_mean" else 1), **walk)


def _call(e: Emit, node: Node, along: Axis, op: str, **more: Slot) -> None:
    call_along(e, node, "reduce", {"element": element(node.x), "op": op}, along, signed=signed(node.x), **more)


def join(first: Chain, then: Chain) -> Chain:
    """The chain of one value that does `first`, then `then`."""
    count = len(first)
    moved = ((s[0], *(o if isinstance(o, float) else o + count for o in s[1:])) for s in then)
    return (*first, *moved)


def _match_others(node: Node) -> Axis | None:
    x, out = node.x.type, node.out.type
    same = (x.dtype, x.quant) == (out.dtype, out.quant)
    if not x.concrete or not out.concrete or not x.size or not same or "chain" in node.attrs or len(node.inputs) > 2:
        return None
    stored = per_tensor(node.x, np.uint8, np.int8) if x.quant is not None else x.dtype in (np.bool_, np.uint8, np.int8)
    extremes = stored and node.op in ("reduce_max", "reduce_min")
    return reduced(node) if extremes or is_wide(x) and x.dtype != np.float32 else None


@lowers("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", match=_match_others)
def reduce_others(e: Emit, node: Node, along: Axis) -> None:
    """Bytes are compared as they are stored; bools give any and all."""
    _call(e, node, along, REDUCTIONS[node.op][0], divisor=0, **NO_WALK)
