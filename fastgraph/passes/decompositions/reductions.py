"""Reductions along axes that do not lie side by side."""

from __future__ import annotations

from ...ir import Node, Value
from ...ops.reduce import reduced_axes
from ...rules.rule import rule
from ...rules.sweep import Sweep

ALIKE = "reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_l2", "reduce_log_sum_exp"
AFTER = {op: op for op in ALIKE} | {"reduce_sum_square": "reduce_sum", "reduce_l1": "reduce_sum"}
"""What reduces what was reduced by each along other axes, as each of its inputs counts the same."""
BEFORE = {"reduce_log_sum": "reduce_sum"}
"""What comes before the last of several."""


@rule("reductions", *AFTER, *BEFORE, quantized=True)
def reduction(g: Sweep, node: Node) -> bool:
    """Over axes that do not lie side by side: one run of axes after the other; over none: nothing to do."""
    axes, x = node.const(1), node.x
    if x.type.quant is not None or node.out.type.quant is not None:
        return _of_stored(g, node)
    known = x.type.concrete and "chain" not in node.attrs and not (axes is None and node.has(1))
    if known and reduced_axes(node, len(x.type.dims), axes) is None:
        return g.becomes(_of_one(g, node))
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
    y = x
    for op, run in zip(_several(node.op, len(runs)), runs, strict=True):
        y = g.reduce(op, y, run, keep=True)
    return g.becomes(y)


def _of_stored(g: Sweep, node: Node) -> bool:
    """Stored numbers, which are rounded once: axes that do not lie side by side are brought to the end."""
    axes, x = node.const(1), node.x
    if axes is None or not x.type.concrete or not x.type.size or x.type.quant is None or x.type.quant.axis is not None:
        return False
    dims = x.type.dims
    gone = sorted({int(a) % len(dims) for a in axes.ravel()})
    if len(_runs([a for a in gone if dims[a] != 1])) < 2:
        return False
    left = [a for a in range(len(dims)) if a not in gone]
    kind = node.out.type.with_shape(tuple(dims[a] for a in left))
    at = g.vector(*range(len(left), len(dims)))
    return g.becomes(g(node.op, g.turn(x, *left, *gone), at, type=kind, **{**node.attrs, "keepdims": 0}))


def _several(op: str, count: int) -> list[str]:
    """The reductions that follow one another."""
    return [BEFORE[op]] * (count - 1) + [op] if op in BEFORE else [op] + [AFTER[op]] * (count - 1)


def _of_one(g: Sweep, node: Node) -> Value:
    """What each element alone is reduced to."""
    if node.op in ("reduce_l1", "reduce_l2"):
        return abs(node.x)
    if node.op == "reduce_log_sum":
        return g.log(node.x)
    return node.x * node.x if node.op == "reduce_sum_square" else node.x


def _runs(axes: list[int]) -> list[list[int]]:
    """Sorted numbers in runs of neighbors."""
    runs: list[list[int]] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs
