"""Reductions along axes that are not adjacent, or as simpler ones; running sums."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import FLOAT32, FLOAT64, INT64, Node, Value
from ...ops.reduce import reduced_axes
from ...ops.registry import attr
from ...rules.operands import known
from ...rules.rule import rule
from ...rules.sweep import Sweep

ALIKE = "reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_l2", "reduce_log_sum_exp"
COMBINED_BY = {op: op for op in ALIKE} | {"reduce_sum_square": "reduce_sum", "reduce_l1": "reduce_sum"}
"""The reduction that combines results along further axes: all inputs weigh the same."""
PARTIAL = {"reduce_log_sum": "reduce_sum"}
"""The reduction for all but the last run of axes."""


@rule("reductions", *COMBINED_BY, *PARTIAL, quantized=True)
def reduction(g: Sweep, node: Node) -> bool:
    """A reduction over axes that are not adjacent becomes one per run of axes; one over no axes, elementwise work."""
    axes, x = node.const(1), node.x
    if x.type.quant is not None or node.out.type.quant is not None:
        return _of_stored(g, node)
    known = x.type.concrete and "chain" not in node.attrs and not (axes is None and node.has(1))
    if known and reduced_axes(node, len(x.type.dims), axes) is None:
        return g.becomes(_of_single(g, node))
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
    for op, run in zip(_by_runs(node.op, len(runs)), runs, strict=True):
        y = g.reduce(op, y, run, keep=True)
    return g.becomes(y)


def _of_stored(g: Sweep, node: Node) -> bool:
    """A reduction of stored numbers, which rounds once: axes that are not adjacent are moved to the end."""
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
    return g.becomes(g(node.op, g.transpose(x, *left, *gone), at, type=kind, **{**node.attrs, "keepdims": 0}))


def _by_runs(op: str, count: int) -> list[str]:
    """The reductions of the runs, one after the other."""
    return [PARTIAL[op]] * (count - 1) + [op] if op in PARTIAL else [op] + [COMBINED_BY[op]] * (count - 1)


def _of_single(g: Sweep, node: Node) -> Value:
    """The reduction of single elements: |x| for l1, x * x for sum_square ..."""
    if node.op in ("reduce_l1", "reduce_l2"):
        return abs(node.x)
    if node.op == "reduce_log_sum":
        return g.log(node.x)
    return node.x * node.x if node.op == "reduce_sum_square" else node.x


def _runs(axes: list[int]) -> list[list[int]]:
    """Sorted numbers, grouped into runs of consecutive ones."""
    runs: list[list[int]] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


@rule("f64_rest other_types", "reduce_mean reduce_l1 reduce_l2 reduce_sum_square reduce_log_sum reduce_log_sum_exp")
def composed(g: Sweep, node: Node) -> bool:
    """Reductions of whole numbers and f64 as sums, with elementwise work before and after; those of f32 where axes are
    not adjacent."""
    x, dtype = node.x, node.x.type.dtype
    if not x.type.concrete or not node.out.type.concrete or dtype is None or not x.type.size or "chain" in node.attrs:
        return False
    if dtype.kind not in "iuf" or (node.has(1) and node.const(1) is None):
        return False
    axes = reduced_axes(node, len(x.type.dims), node.const(1)) or ()
    if dtype == FLOAT32 and (node.op == "reduce_mean" or not _separated(axes, x.type.dims)):
        return False
    real = FLOAT32 if dtype == FLOAT32 else FLOAT64
    wide = real if dtype.kind == "f" else np.dtype(np.uint64) if dtype.kind == "u" else INT64

    keep = bool(attr(node, "keepdims"))
    match node.op:
        case "reduce_mean":
            y = g.sum(g.cast(x, wide), axes, keep) / prod(x.type.dims[a] for a in axes)
        case "reduce_l1":
            y = g.sum(abs(x), axes, keep)
        case "reduce_sum_square":
            y = g.sum(x * x, axes, keep)
        case "reduce_l2":
            y = g.sqrt(g.cast(g.sum(g.cast(x * x, wide), axes, keep), real))
        case "reduce_log_sum":
            y = g.log(g.cast(g.sum(g.cast(x, wide), axes, keep), real))
        case _:
            x = g.cast(x, real)
            top = g.largest(x, axes, keep=True)
            top = g.choose(abs(top) < np.inf, top, 0)
            y = g.log(g.sum(g.exp(x - top), axes, keep=True)) + top
    return g.becomes(g.cast(y, dtype))


def _separated(axes: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Whether there are no axes to reduce, or axes that stay lie between them."""
    chosen = [a for a in axes if dims[a] != 1]
    between = range(min(chosen, default=0), max(chosen, default=-1) + 1)
    return not chosen or any(dims[a] != 1 and a not in axes for a in between)


@rule("f64", "softmax log_softmax")
def softmax(g: Sweep, node: Node) -> bool:
    """softmax of f64: exp(x - max), divided by its sum."""
    x = node.x
    if not known(x, dtypes=[FLOAT64]):
        return False
    axes = [attr(node, "axis") % len(x.type.dims)]
    moved = x - g.largest(x, axes, keep=True)
    power = g.exp(moved)
    total = g.sum(power, axes, keep=True)
    return g.becomes(power / total if node.op == "softmax" else moved - g.log(total))


@rule("early", "cum_sum cum_prod")
def axis_at_run_time(g: Sweep, node: Node) -> bool:
    """A running sum along an axis that is an operand: along each of up to three axes, of which `where` chooses one."""
    x, at, rank = node.x, node.y, len(node.x.type.shape or ())
    if at.data is not None or not x.type.concrete or not 1 <= rank <= 3 or not x.type.size:
        return False
    if at.type.shape not in ((), (1,)):
        return False
    sums = [g.shape(g(node.op, x, np.array(i), **node.attrs), 1, *x.type.dims) for i in range(rank)]
    axis = g.shape(g.cast(at, INT64))
    return g.becomes(g.pick(g("concat", *sums, axis=0), axis))
