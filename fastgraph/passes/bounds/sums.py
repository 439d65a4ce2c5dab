"""Rules for computations on bounded values: reductions mask elements that are not real."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np

from ...ir import Node, Value
from ...ops.matmul import terms_of
from ...ops.reduce import reduced_axes
from ...ops.registry import OPS, Layout, attr
from .state import Bounds, follows
from .values import Below, Bounded, Dim, Extent, Unbounded, refuse, same


def elementwise(g: Bounds, node: Node) -> list[Bounded]:
    """Elementwise operators; along each axis their operands must have the same extent in every run."""
    refuse(OPS[node.op].layout is not Layout.EACH)
    parts = g.takes(node.inputs)
    extents = broadcast([p for p in parts if p is not None])
    same_ = _added_to_zeros(node, parts)
    if same_ is not None:
        return [same_]
    values = g.again(node, *(p and p.value for p in parts))
    if len(parts) == 1 and parts[0] is not None and node.op in ("cast", "identity"):
        dtype = values[0].type.dtype
        whole = dtype is not None and dtype.kind in "iu" and dtype.itemsize >= 4
        return [parts[0]._replace(value=values[0], below=parts[0].below if whole else None)]
    return [Bounded(v, extents) for v in values]


def _added_to_zeros(node: Node, parts: Sequence[Bounded | None]) -> Bounded | None:
    """The operand of an integer `add` whose other operand is a constant 0 that leaves its shape as it is."""
    if node.op == "add" and node.out.type.dtype is not None and node.out.type.dtype.kind in "iu":
        for x, zeros in permutations(parts):
            data = zeros and zeros.value.data
            if x and data is not None and not data.any() and data.size == 1 and data.ndim <= len(x.dims):
                return x
    return None


def broadcast(parts: Sequence[Bounded], less: int = 0) -> dict[int, Extent]:
    """The extents that operands broadcast to, without the last `less` axes."""
    rank = max(len(p.dims) for p in parts)
    found: dict[int, Extent] = {}
    for axis in range(rank - less):
        dims = [p.dims[axis - rank] for p in parts if len(p.dims) >= rank - axis]
        extents = [n for n in dims if isinstance(n, Extent)]
        if not extents:
            continue
        refuse(any(not same(n, extents[0]) for n in extents) or any(n != 1 for n in dims if not isinstance(n, Extent)))
        found[axis] = extents[0]
    return found


FILLS = {
    "reduce_sum": 0, "reduce_mean": 0, "reduce_prod": 1, "reduce_l1": 0, "reduce_l2": 0, "reduce_sum_square": 0,
    "reduce_log_sum": 0, "reduce_log_sum_exp": -np.inf,
}  # fmt: skip
"""The identity of each reduction, by which masked elements don't count."""


def _fill(node: Node, dtype: np.dtype) -> float:
    if node.op in FILLS:
        return FILLS[node.op]
    least = node.op in ("reduce_max", "arg_max")
    if dtype.kind == "f":
        return -np.inf if least else np.inf
    if dtype.kind == "b":
        return not least
    return np.iinfo(dtype).min if least else np.iinfo(dtype).max


@follows(*FILLS, "reduce_max", "reduce_min")
def reduction(g: Bounds, node: Node) -> list[Bounded]:
    x, given = g.take(node.x), g.ints_of(node, 1)
    dtype, rank = x.value.type.dtype, len(x.dims)
    axes = reduced_axes(node, rank, given)
    if axes is None or dtype is None or node.op == "reduce_log_sum_exp" and dtype.kind != "f":
        raise Unbounded
    within = [a for a in axes if a in x.extents]
    mean = node.op == "reduce_mean" and within
    value = g.masked(x, _fill(node, dtype), within)
    keeps = bool(attr(node, "keepdims"))
    y = g.reduce("reduce_sum" if mean else node.op, value, axes, keeps)
    y = y / _count(g, x, axes) if mean else y
    left = [a for a in range(rank) if keeps or a not in axes]
    return [Bounded(y, {left.index(a): n for a, n in x.extents.items() if a not in axes})]


def _count(g: Bounds, x: Bounded, axes: Sequence[int]) -> Value:
    """The number of real elements that become one, in x's element type, and at least 1."""
    refuse(x.value.type.dtype is None or x.value.type.dtype.kind != "f")
    y = g.ints(np.prod([x.value.type.dims[a] for a in axes if a not in x.extents]))
    for axis in axes:
        y = y * x.extents[axis].count if axis in x.extents else y
    return g.cast(g.max(y, 1), x.value.type.dtype)


@follows("softmax", "log_softmax")
def softmax(g: Bounds, node: Node) -> list[Bounded]:
    x, axis = g.take(node.x), attr(node, "axis")
    value = g.masked(x, -np.inf, [axis % len(x.dims)])
    return [Bounded(g.again(node, value)[0], x.extents)]


@follows("arg_max", "arg_min")
def arg_extreme(g: Bounds, node: Node) -> list[Bounded]:
    """Elements that are not real hold the worst number; of equal elements the first counts, which is real."""
    x, axis = g.take(node.x), attr(node, "axis") % len(g.take(node.x).dims)
    along, dtype = x.extents.get(axis), x.value.type.dtype
    if dtype is None or along is not None and (not along.least or attr(node, "select_last_index")):
        raise Unbounded
    value = x.value if along is None else g.masked(x, _fill(node, dtype), [axis])
    left = [a for a in range(len(x.dims)) if attr(node, "keepdims") or a != axis]
    found = {left.index(a): n for a, n in x.extents.items() if a != axis}
    return [Bounded(g.again(node, value)[0], found, False, None if along is None else Below(None, (along,)))]


@follows("cum_sum", "cum_prod")
def running(g: Bounds, node: Node) -> list[Bounded]:
    """Running sums and products: elements behind the real ones don't affect these, unless the sum runs in reverse."""
    x, axis = g.take(node.x), g.ints_of(node, 1)
    if axis is None:
        raise Unbounded
    value = g.masked(x, node.op == "cum_prod", [axis[0] % len(x.dims)]) if attr(node, "reverse") else x.value
    return [Bounded(g.again(node, value, g.ints(axis[0]))[0], x.extents)]


@follows("layer_normalization", "rms_normalization", "batch_normalization", "gemm", "block_dense")
def by_row(g: Bounds, node: Node) -> list[Bounded]:
    """Operators that compute each row on its own."""
    x, others = g.take(node.x), [None if v is None else g.fixed(v) for v in node.inputs[1:]]
    whole = node.op in ("layer_normalization", "rms_normalization")
    rows = attr(node, "axis") % len(x.dims) if whole else len(x.dims) - 1
    bias = others[1] if node.op == "gemm" and len(others) > 1 else None
    refuse(any(axis >= rows for axis in x.extents) or node.op == "gemm" and attr(node, "trans_a"))
    refuse(bias is not None and bias.type.dims[:-1] not in ((), (1,)))
    refuse(node.op == "batch_normalization" and len(node.outputs) > 1)
    return [Bounded(v, x.extents) for v in g.again(node, x.value, *others)]


@follows("instance_normalization")
def instance_normalization(g: Bounds, node: Node) -> list[Bounded]:
    x, scale, shift = g.take(node.x), *map(g.fixed, node.inputs[1:])
    axes = range(1, len(x.dims) - 1)
    open_ = [axis for axis in axes if axis in x.extents]
    if not open_:
        return [Bounded(g.again(node, x.value, scale, shift)[0], x.extents)]
    count = _count(g, x, axes)
    mean = g.reduce("reduce_sum", g.masked(x, 0, open_), axes, True) / count
    apart = x.value - mean
    squares = g.masked(Bounded(apart * apart, x.extents), 0, open_)
    spread = (g.reduce("reduce_sum", squares, axes, True) / count + attr(node, "epsilon")) ** 0.5
    return [Bounded(apart / spread * scale + shift, x.extents)]


@follows("matmul")
def matmul(g: Bounds, node: Node) -> list[Bounded]:
    a, b = (g.take(v) for v in node.inputs)
    refuse(min(len(a.dims), len(b.dims)) < 2)
    rank = max(len(a.dims), len(b.dims))
    extents = broadcast([a, b], 2)
    rows, inner = (a.extents.get(len(a.dims) - n) for n in (2, 1))
    between, columns = (b.extents.get(len(b.dims) - n) for n in (2, 1))
    refuse(inner is not between and not same(inner, between))
    extents |= {at: n for at, n in ((rank - 2, rows), (rank - 1, columns)) if n is not None}
    values = [g.masked(a, 0, [len(a.dims) - 1]), g.masked(b, 0, [len(b.dims) - 2])]
    return [Bounded(g.again(node, *values)[0], extents)]


@follows("einsum")
def einsum(g: Bounds, node: Node) -> list[Bounded]:
    """Axes of one name have the same extent; axes that are summed are masked."""
    parts = [g.take(v) for v in node.inputs]
    terms, result = terms_of(node, len(parts))
    dims: dict[str, Dim] = {}
    for term, part in zip(terms, parts, strict=True):
        refuse(len(term) != len(part.dims) or "." in term)
        for name, n in zip(term, part.dims, strict=True):
            first = dims.setdefault(name, n)
            if isinstance(n, Extent) or isinstance(first, Extent):
                refuse(not (isinstance(n, Extent) and isinstance(first, Extent) and same(n, first)))
    values = [
        g.masked(part, 0, [axis for axis, name in enumerate(term) if name not in result])
        for term, part in zip(terms, parts, strict=True)
    ]
    found = {axis: n for axis, name in enumerate(result) if isinstance(n := dims[name], Extent)}
    return [Bounded(g.again(node, *values)[0], found)]
