"""Reductions of rows whose number depends on data, as loops that take row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import BOOL, INT64, Graph, Node, TensorType, Value
from ..ops.reduce import reduced_axes
from ..ops.registry import OPS, Layout, attr
from ..rules.rule import rule
from ..rules.sweep import Sweep
from .bounds.slices import clamped_index
from .bounds.values import Unbounded, refuse

STEPS = {"reduce_sum": "add", "reduce_mean": "add", "reduce_max": "max", "reduce_min": "min"}
KINDS = ("float32", "float64", "int32", "int64")


@rule("rows", *STEPS)
def by_rows(g: Sweep, node: Node) -> bool:
    """Given ``reduce_sum(gather(w, slice(ids, a, b)), 0)``, a and b computed by the run; result: a loop of b - a rounds
    that carries a place and a sum, to which it adds ``gather(w, gather(ids, place))``."""
    out, mean = node.out.type, node.op == "reduce_mean"
    if not _is_open(node.x) or not out.concrete or out.dtype is None or out.dtype.name not in KINDS:
        return False
    row = TensorType(out.dtype, (node.x.type.shape or ())[1:])
    if reduced_axes(node, 1 + len(row.dims), node.const(1)) != (0,) or mean and out.dtype.kind != "f":
        return False
    cuts: set[tuple[int, Value, Value]] = set()
    try:
        body = _round(g, node, row, cuts)
    except Unbounded:
        return False
    if len(cuts) != 1:
        return False
    ((size, *ends),) = cuts
    start, end = (clamped_index(g, g.cast(g.shape(v), INT64), size) for v in ends)
    count, first = g.max(end - start, 0), np.full(row.dims, _identity(STEPS[node.op], out.dtype))
    *_, y = g.several("loop", [start.type, row], count, None, start, first, body=body)
    return g.becomes(y / g.cast(g.max(count, 1), out.dtype) if mean else y)


def _round(g: Sweep, node: Node, row: TensorType, cuts: set[tuple[int, Value, Value]]) -> Graph:
    """The body of a loop that takes a row into account, and goes to the next."""
    number, name = TensorType(INT64, ()), node.out.name
    kinds = {"turn": number, "go": TensorType(BOOL, ()), "place": number, "before": row}
    body = Graph(f"{name}.row", [Value(f"{name}.{key}", kind) for key, kind in kinds.items()], [], [], "")
    _, go, place, before = body.inputs
    inner = Sweep(body)
    inner.node = node
    with inner:
        after = inner(STEPS[node.op], before, _row(g, inner, node.x, place, cuts))
        body.outputs = [go, place + 1, after]
    body.nodes = inner.written()
    return body


def _identity(step: str, dtype: np.dtype) -> np.ndarray:
    limits: Any = np.iinfo(dtype) if dtype.kind == "i" else None
    low, high = (-np.inf, np.inf) if limits is None else (limits.min, limits.max)
    return np.array({"add": 0, "max": low, "min": high}[step], dtype)


def _is_open(v: Value) -> bool:
    """Whether only the number of rows is unknown."""
    first, *others = v.type.shape or (0,)
    return first is None and None not in others and v.type.quant is None


def _row(g: Sweep, inner: Sweep, v: Value, place: Value, cuts: set[tuple[int, Value, Value]]) -> Value:
    """The row of a value that is made of slices, at a place of what these are of: (rows, start, end) goes to `cuts`.
    Unbounded where it is made of something else."""
    node = g.maker.get(v)
    if node is None or not _is_open(v) or len(node.outputs) != 1:
        raise Unbounded
    if node.op == "slice":
        cuts.add(_cut(node))
        return inner.pick(node.x, place)
    if node.op == "gather" and not attr(node, "axis") and node.x.type.concrete and node.inputs[1] is not None:
        return inner.pick(node.x, _row(g, inner, node.inputs[1], place, cuts))
    if node.op == "unsqueeze" and _is_open(node.x):
        return inner.shape(_row(g, inner, node.x, place, cuts), *v.type.with_shape((v.type.shape or ())[1:]).dims)
    refuse(OPS[node.op].layout is not Layout.EACH or not OPS[node.op].pure)
    operands: list[Value | None] = []
    for each in node.inputs:
        if each is not None and not each.type.concrete:
            each = _row(g, inner, each, place, cuts)
        elif each is not None and len(each.type.dims) == len(v.type.shape or ()):
            refuse(each.type.dims[0] != 1)
            each = inner.shape(each, *each.type.dims[1:])
        operands.append(each)
    return inner(node.op, *operands, **node.attrs)


def _cut(node: Node) -> tuple[int, Value, Value]:
    """(rows, start, end) of a slice of the first axis."""
    x, start, end, axes, steps = (node.input(i) for i in range(5))
    plain = all(v is None or v.data is not None and v.data.tolist() == [n] for v, n in ((axes, 0), (steps, 1)))
    if not plain or x is None or start is None or end is None or not x.type.concrete or not x.type.size:
        raise Unbounded
    refuse(not start.type.shape == end.type.shape == (1,))
    return x.type.dims[0], start, end
