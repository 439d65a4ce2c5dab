"""Operators that are others in disguise: norms, products of stacks."""

from __future__ import annotations

import numpy as np

from ..ir import Node, TensorType, Value
from ..ops.registry import attr
from .moves import shaped, turn
from .rewrite import Sweep, constant, sees

MOST_SHIFTS = 9
"""Up to how many neighbors are added one by one; more are a product with a matrix of ones and zeros."""


def _whole(node: Node, *dtypes: type) -> bool:
    """Whether operand and result are concrete, of one of these types, and not empty."""
    x = node.x.type
    return x.concrete and node.out.type.concrete and x.size > 0 and (not dtypes or x.dtype in dtypes)


@sees("affine_grid")
def affine_grid(state: Sweep, node: Node) -> bool:
    """Given ``y = affine_grid(theta, size)``; result ``theta @ places``, turned."""
    from ..ops.sample import affine_places

    size = node.const(1)
    if size is None or not _whole(node, np.float32):
        return False
    places = affine_places(size.ravel().tolist(), bool(attr(node, "align_corners"))).T.astype(np.float32)
    n, rank, _ = node.x.type.dims
    rows = shaped(state, node, node.x, (n * rank, rank + 1))
    flat = rows.type.with_shape((n * rank, places.shape[1]))
    both: list[Value | None] = [rows, constant(node.out, np.ascontiguousarray(places), "places")]
    y = shaped(state, node, state.add("matmul", both, flat, node), (n, rank, places.shape[1]))
    state.replace(node.out, shaped(state, node, turn(state, node, y, (0, 2, 1)), node.out.type.dims))
    return True


@sees("mean_variance_normalization")
def mean_variance_normalization(state: Sweep, node: Node) -> bool:
    """Given ``y = mean_variance_normalization(x)``; result ``c / (sqrt(mean(c * c)) + 1e-9)``, c = x - mean(x)."""
    x, rank = node.x, len(node.x.type.shape or ())
    if not _whole(node, np.float32, np.float64):
        return False
    own = sorted({axis % rank for axis in attr(node, "axes")})
    axes = constant(node.out, np.array(own, np.int64), "axes")
    small = x.type.with_shape(tuple(1 if a in own else n for a, n in enumerate(x.type.dims)))

    def mean(value: Value) -> Value:
        return state.add("reduce_mean", [value, axes], small, node, keepdims=1, noop_with_empty_axes=0)

    if not own:
        return False
    center = state.add("sub", [x, mean(x)], x.type, node)
    root = state.add("sqrt", [mean(state.add("mul", [center, center], x.type, node))], small, node)
    least = constant(node.out, np.array(1e-9, x.type.dtype), "least")
    root = state.add("add", [root, least], small, node)
    state.replace(node.out, state.add("div", [center, root], x.type, node))
    return True


@sees("lp_normalization")
def lp_normalization(state: Sweep, node: Node) -> bool:
    """Given ``y = lp_normalization(x)``; result ``x / max(norm, least)``, 0 where that is 0."""
    if not _whole(node, np.float32):
        return False
    x, axis, least = node.x.type, attr(node, "axis") % len(node.x.type.dims), attr(node, "least")
    small = x.with_shape(tuple(1 if a == axis else n for a, n in enumerate(x.dims)))
    axes = constant(node.out, np.array([axis], np.int64), "axes")
    op = "reduce_l1" if attr(node, "p") == 1 else "reduce_l2"
    norm = state.add(op, [node.x, axes], small, node, keepdims=1, noop_with_empty_axes=0)
    if least > 0:
        norm = state.add("max", [norm, constant(node.out, np.float32(least), "least")], small, node)
        state.replace(node.out, state.add("div", [node.x, norm], x, node))
        return True
    zero = constant(node.out, np.float32(0), "zero")
    none = state.add("equal", [norm, zero], TensorType(np.dtype(bool), small.shape), node)
    one = constant(node.out, np.float32(1), "one")
    norm = state.add("where", [none, one, norm], small, node)
    state.replace(node.out, state.add("div", [node.x, norm], x, node))
    return True


@sees("lrn")
def lrn(state: Sweep, node: Node) -> bool:
    """Given ``y = lrn(x)``; result ``x / (bias + alpha / size * sum of neighbors' squares) ** beta``."""
    if not _whole(node, np.float32):
        return False
    x, size = node.x, attr(node, "size")
    channels = x.type.dims[-1]
    before, after = min((size - 1) // 2, channels), min(size // 2, channels)
    squares = state.add("mul", [x, x], x.type, node)
    if before + after + 1 > MOST_SHIFTS:
        place = np.arange(channels)
        apart = place[:, None] - place[None, :]
        near = constant(node.out, ((apart <= after) & (apart >= -before)).astype(np.float32), "near")
        total = state.add("matmul", [squares, near], x.type, node)
    else:
        total = _neighbors(state, node, squares, before, after)
    share = constant(node.out, np.float32(attr(node, "alpha") / size), "share")
    bias, beta = (constant(node.out, np.float32(attr(node, name)), name) for name in ("bias", "beta"))
    below = state.add("add", [state.add("mul", [total, share], x.type, node), bias], x.type, node)
    below = state.add("pow", [below, beta], x.type, node)
    state.replace(node.out, state.add("div", [x, below], x.type, node))
    return True


def _neighbors(state: Sweep, node: Node, squares: Value, before: int, after: int) -> Value:
    """The sum along the last axis of so many elements before, the element, and so many after."""
    dims, rank = squares.type.dims, len(squares.type.dims)
    pads = [0] * (2 * rank)
    pads[rank - 1], pads[-1] = before, after
    wide = squares.type.with_shape((*dims[:-1], dims[-1] + before + after))
    amounts = constant(node.out, np.array(pads, np.int64), "pads")
    padded = state.add("pad", [squares, amounts], wide, node, mode="constant")
    total: Value | None = None
    for i in range(before + after + 1):
        parts = zip(("starts", "ends", "axes"), (i, i + dims[-1], rank - 1), strict=True)
        cut: list[Value | None] = [constant(node.out, np.array([v], np.int64), name) for name, v in parts]
        part = state.add("slice", [padded, *cut], squares.type, node)
        total = part if total is None else state.add("add", [total, part], squares.type, node)
    assert total is not None
    return total


@sees("matmul")
def spread_matmul(state: Sweep, node: Node) -> bool:
    """Given ``y = a @ b`` of stacks of matrices that are spread over one another; result the product of two alike."""
    a, b = node.inputs[:2]
    assert a is not None and b is not None
    if not _whole(node, np.float32) or not b.type.concrete or len(a.type.dims) < 2 or len(b.type.dims) < 3:
        return False
    if len(node.inputs) > 2 or not b.type.size or a.type.dims[:-2] == b.type.dims[:-2]:
        return False
    stack = node.out.type.dims[:-2]
    if (*stack, a.type.dims[-2], b.type.dims[-1]) != node.out.type.dims:
        return False
    both: list[Value | None] = [_spread(state, node, value, stack) for value in (a, b)]
    state.replace(node.out, state.add("matmul", both, node.out.type, node, **node.attrs))
    return True


def _spread(state: Sweep, node: Node, value: Value, stack: tuple[int, ...]) -> Value:
    """As many matrices as the stack has."""
    dims = (*stack, *value.type.dims[-2:])
    if value.type.dims == dims:
        return value
    if value.data is not None:
        return constant(value, np.ascontiguousarray(np.broadcast_to(value.data, dims)), "spread")
    shape = constant(node.out, np.array(dims, np.int64), "shape")
    return state.add("expand", [value, shape], value.type.with_shape(dims), node)


RULES = (affine_grid, lp_normalization, lrn)
