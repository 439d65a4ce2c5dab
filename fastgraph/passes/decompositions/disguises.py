"""Operators that are others in disguise."""

from __future__ import annotations

import numpy as np

from ...ir import Node, Value
from ...ir.build import constant
from ...ops.registry import attr
from ...rules.moves import shaped, turn
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .writing import Steps, known, real


@rule("common", "affine_grid")
def affine_grid(state: Sweep, node: Node) -> bool:
    """Given ``y = affine_grid(theta, size)``; result ``theta @ places``, turned."""
    from ...ops.sample import affine_places

    size = node.const(1)
    dtype = node.x.type.dtype
    if size is None or not node.out.type.concrete or dtype not in (np.float32, np.float64) or not node.x.type.size:
        return False
    places = affine_places(size.ravel().tolist(), bool(attr(node, "align_corners"))).T.astype(dtype)
    n, rank, _ = node.x.type.dims
    rows = shaped(state, node, node.x, (n * rank, rank + 1))
    flat = rows.type.with_shape((n * rank, places.shape[1]))
    both: list[Value | None] = [rows, constant(node.out, np.ascontiguousarray(places), "places")]
    y = shaped(state, node, state.add("matmul", both, flat, node), (n, rank, places.shape[1]))
    state.replace(node.out, shaped(state, node, turn(state, node, y, (0, 2, 1)), node.out.type.dims))
    return True


@rule("common", "fake_quant")
def fake_quant(state: Sweep, node: Node) -> bool:
    """The number of steps from the least number on, rounded; and back."""
    from ...ops.fake_quant import nudged

    x = node.x.type
    if not x.concrete or x.dtype != np.float32 or not x.size:
        return False
    low, high, step = nudged(node)
    y = node.x
    for op, *numbers in (
        ("clip", low, high), ("sub", low), ("mul", np.float32(1) / step), ("add", 0.5), ("floor",), ("mul", step),
        ("add", low),
    ):  # fmt: skip
        operands = [constant(node.out, np.float32(n), op) for n in numbers]
        y = state.add(op, [y, *operands], x, node)
    state.replace(node.out, y)
    return True


@rule("rare", "swiglu")
def swiglu(g: Sweep, node: Node) -> bool:
    """Given ``y = swiglu(a, b)``; result ``a * sigmoid(alpha * a) * b``."""
    a, b = node.inputs
    alpha = attr(node, "alpha")
    if a is None or b is None or not known(a, b):
        return False
    return g.becomes(a * g.sigmoid(a if alpha == 1 else a * alpha) * b)


@rule("rare", "shrink")
def shrink(g: Sweep, node: Node) -> bool:
    """Given ``y = shrink(x)``; result x moved towards 0 by the bias where it is far from it, else 0."""
    x, bound, bias = node.x, attr(node, "lambd"), attr(node, "bias")
    return known(x) and g.becomes(g.choose(x < -bound, x + bias, g.choose(x > bound, x - bias, 0)))


@rule("rare", "det")
def det(state: Sweep, node: Node) -> bool:
    """Given ``y = det(x)`` of matrices of up to 3 rows; result the sum of its products."""
    n = node.x.type.dims[-1] if known(node.x) and real(node.x.type.dtype) else 0
    if not 0 < n <= 3:
        return False
    do = Steps(state, node)
    flat = do.shape(node.x, *node.x.type.dims[:-2], n * n)
    at = len(flat.type.dims) - 1
    part = [do.cut(flat, at, i, i + 1) for i in range(n * n)]

    def minor(a: int, b: int, c: int, d: int) -> Value:
        return do("sub", do("mul", part[a], part[d]), do("mul", part[b], part[c]))

    if n == 1:
        return do.becomes(part[0])
    if n == 2:
        return do.becomes(minor(0, 1, 2, 3))
    y = do("sub", do("mul", part[0], minor(4, 5, 7, 8)), do("mul", part[1], minor(3, 5, 6, 8)))
    return do.becomes(do("add", y, do("mul", part[2], minor(3, 4, 6, 7))))


@rule("rare", "tensor_scatter")
def circular_scatter(state: Sweep, node: Node) -> bool:
    """Given ``y = tensor_scatter(cache, x, at)`` that goes round; result x scattered to ``(at + 0, 1, ..) % n``."""
    past, update, start = node.inputs
    if attr(node, "mode") != "circular" or update is None or start is None or not known(past, update, start):
        return False
    do, dims, rank = Steps(state, node), update.type.dims, len(update.type.dims)
    axis = attr(node, "axis") % rank
    along = constant(node.out, np.arange(dims[axis]).reshape([-1 if a == axis else 1 for a in range(rank)]), "along")
    at = do("add", do.shape(do.cast(start, np.int64), dims[0], *(1 for _ in dims[1:])), along)
    at = do("mod", at, node.x.type.dims[axis], fmod=0)
    return do.becomes(do("scatter_elements", node.x, do.spread(at, *dims), update, axis=axis, reduction="none"))
