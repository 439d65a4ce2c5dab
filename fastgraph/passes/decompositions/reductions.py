"""Reductions along axes that do not lie side by side."""

from __future__ import annotations

import numpy as np

from ...ir import Node, Value
from ...ir.build import constant
from ...ops.reduce import reduced_axes
from ...rules.moves import shaped, turn
from ...rules.rule import rule
from ...rules.sweep import Sweep

ALIKE = "reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_l2", "reduce_log_sum_exp"
AFTER = {op: op for op in ALIKE} | {"reduce_sum_square": "reduce_sum", "reduce_l1": "reduce_sum"}
"""What reduces what was reduced by each along other axes, as each of its inputs counts the same."""
BEFORE = {"reduce_log_sum": "reduce_sum"}
"""What comes before the last of several."""


@rule("reductions", *AFTER, *BEFORE, quantized=True)
def reduction(state: Sweep, node: Node) -> bool:
    """Over axes that do not lie side by side: one run of axes after the other; over none: nothing to do."""
    axes, x = node.const(1), node.x
    if x.type.quant is not None or node.out.type.quant is not None:
        return _of_stored(state, node)
    known = x.type.concrete and "chain" not in node.attrs and not (axes is None and node.has(1))
    if known and reduced_axes(node, len(x.type.dims), axes) is None:
        state.replace(node.out, _of_one(state, node))
        return True
    if axes is None:
        return False
    kinds = "f" if node.op in ("reduce_l2", "reduce_log_sum", "reduce_log_sum_exp") else "iuf"
    if not x.type.concrete or x.type.dtype is None or x.type.dtype.kind not in kinds:
        return False
    dims = x.type.dims
    chosen = sorted({int(a) % len(dims) for a in axes.ravel() if dims[int(a) % len(dims)] != 1})
    runs = _runs(chosen)
    if len(runs) < 2 or not x.type.size:
        return False
    y, left = x, list(dims)
    for op, run in zip(_several(node.op, len(runs)), runs, strict=True):
        left = [1 if i in run else d for i, d in enumerate(left)]
        at = constant(node.out, np.array(run, np.int64), "axes")
        y = state.add(op, [y, at], x.type.with_shape(tuple(left)), node, keepdims=1, noop_with_empty_axes=0)
    state.replace(node.out, shaped(state, node, y, node.out.type.dims))
    return True


def _of_stored(state: Sweep, node: Node) -> bool:
    """Stored numbers, which are rounded once: axes that do not lie side by side are brought to the end."""
    axes, x = node.const(1), node.x
    if axes is None or not x.type.concrete or not x.type.size or x.type.quant is None or x.type.quant.axis is not None:
        return False
    dims = x.type.dims
    gone = sorted({int(a) % len(dims) for a in axes.ravel()})
    if len(_runs([a for a in gone if dims[a] != 1])) < 2:
        return False
    left = [a for a in range(len(dims)) if a not in gone]
    turned = turn(state, node, x, (*left, *gone))
    at = constant(node.out, np.arange(len(left), len(dims), dtype=np.int64), "axes")
    attrs = {**node.attrs, "keepdims": 0}
    y = state.add(node.op, [turned, at], node.out.type.with_shape(tuple(dims[a] for a in left)), node, **attrs)
    state.replace(node.out, shaped(state, node, y, node.out.type.dims))
    return True


def _several(op: str, count: int) -> list[str]:
    """The reductions that follow one another."""
    return [BEFORE[op]] * (count - 1) + [op] if op in BEFORE else [op] + [AFTER[op]] * (count - 1)


def _of_one(state: Sweep, node: Node) -> Value:
    """What each element alone is reduced to."""
    x = node.x
    if node.op in ("reduce_l1", "reduce_l2"):
        return state.add("abs", [x], x.type, node)
    if node.op == "reduce_log_sum":
        return state.add("log", [x], x.type, node)
    return state.add("mul", [x, x], x.type, node) if node.op == "reduce_sum_square" else x


def _runs(axes: list[int]) -> list[list[int]]:
    """Sorted numbers in runs of neighbors."""
    runs: list[list[int]] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs
