"""Normalizations as reductions and elementwise steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import Node, TensorType, Value
from ...ir.build import constant
from ...ops.registry import attr
from ...rules.moves import shaped
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .writing import Steps, known

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
MOST_SHIFTS = 9
"""Up to how many neighbors are added one by one; more are a product with a matrix of ones and zeros."""


@rule("common", "instance_normalization layer_normalization rms_normalization")
def normalization(state: Sweep, node: Node) -> bool:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the axes of the operator; of
    rms_normalization without the mean.
    """
    x, rank = node.x, len(node.x.type.shape or ())
    if not _real(x) or len(node.outputs) > 1 and node.op != "layer_normalization":
        return False
    first = 1 if node.op == "instance_normalization" else attr(node, "axis") % rank
    last = rank - 1 if node.op == "instance_normalization" else rank
    if first == last or not all(v is None or _onto(v, x) for v in node.inputs[1:]):
        return False
    own = x.type.dtype == np.float32 and node.op == "rms_normalization"
    if own and node.inputs[1].type.shape == x.type.dims[first:]:  # type: ignore[union-attr]
        return False  # a kernel's
    mean, centered = None, x
    if node.op != "rms_normalization":
        mean = _mean(state, node, x, first, last)
        centered = state.add("sub", [x, mean], x.type, node)
    inverse = _inverse(state, node, _mean_square(state, node, centered, first, last))
    if mean is not None and len(node.outputs) > 1:
        for old, new in zip(node.outputs[1:], (mean, inverse), strict=False):
            state.replace(old, new)
    _affine(state, node, state.add("mul", [centered, inverse], x.type, node), node.inputs[1:3])
    return True


@rule("common", "group_normalization")
def group_normalization(state: Sweep, node: Node) -> bool:
    """The same over groups of channels: means over a channel first, then over the channels of each group."""
    x, groups = node.x, attr(node, "num_groups")
    if not _real(x) or not all(v is not None and v.type.dtype == x.type.dtype for v in node.inputs[1:]):
        return False
    n, c, *space = x.type.dims
    column = (c, *(1,) * len(space))

    def within(mean: Value) -> Value:
        """The mean of the group for each of its channels, [N, groups, 1], of that of each channel."""
        return _mean(state, node, shaped(state, node, mean, (n, groups, c // groups)), 2, 3)

    def spread(mean: Value) -> Value:
        dims = (n, groups, c // groups)
        shape = constant(node.out, np.array(dims, np.int64), "shape")
        wide = state.add("expand", [mean, shape], x.type.with_shape(dims), node)
        return shaped(state, node, wide, (n, *column))

    rank = len(x.type.dims)
    mean = _mean(state, node, x, 2, rank)
    centered = state.add("sub", [x, spread(within(mean))], x.type, node)
    inverse = _inverse(state, node, within(_mean_square(state, node, centered, 2, rank)))
    affine = [None if v is None else shaped(state, node, v, column) for v in node.inputs[1:3]]
    _affine(state, node, state.add("mul", [centered, spread(inverse)], x.type, node), affine)
    return True


def _real(x: Value) -> bool:
    return x.type.concrete and x.type.dtype in FLOATS and x.type.size > 0


def _mean(state: Sweep, node: Node, x: Value, first: int, last: int) -> Value:
    """The mean of x along the axes from `first` up to `last`, which stay as 1."""
    if first == last:
        return x
    axes = constant(node.out, np.arange(first, last, dtype=np.int64), "axes")
    small = x.type.with_shape(tuple(1 if first <= i < last else d for i, d in enumerate(x.type.dims)))
    return state.add("reduce_mean", [x, axes], small, node, keepdims=1, noop_with_empty_axes=0)


def _mean_square(state: Sweep, node: Node, x: Value, first: int, last: int) -> Value:
    return _mean(state, node, state.add("mul", [x, x], x.type, node), first, last)


def _inverse(state: Sweep, node: Node, variance: Value) -> Value:
    """1 / the deviation: one division for many elements."""
    epsilon = constant(node.out, np.array(attr(node, "epsilon"), variance.type.dtype), "epsilon")
    y = state.add("add", [variance, epsilon], variance.type, node)
    for op in ("sqrt", "reciprocal"):
        y = state.add(op, [y], variance.type, node)
    return y


def _affine(state: Sweep, node: Node, y: Value, values: Sequence[Value | None]) -> None:
    """y * scale + bias, as far as they change anything, stands for the node's result."""
    for op, value, same in zip(("mul", "add"), values, (1, 0), strict=False):
        if value is not None and (value.data is None or (value.data != same).any()):
            y = state.add(op, [y, value], y.type, node)
    state.replace(node.out, y)


def _onto(value: Value, x: Value) -> bool:
    """Whether a value is of x's element type and broadcasts to it."""
    dims, target = value.type.shape or (), x.type.dims
    pairs = zip(reversed(dims), reversed(target), strict=False)
    return (
        value.type.concrete
        and value.type.dtype == x.type.dtype
        and len(dims) <= len(target)
        and all(a in (1, b) for a, b in pairs)
    )


def _whole(node: Node) -> bool:
    """Whether operand and result are concrete, f32 or f64, and not empty."""
    return _real(node.x) and node.out.type.concrete


@rule("common", "lp_normalization")
def lp_normalization(state: Sweep, node: Node) -> bool:
    """Given ``y = lp_normalization(x)``; result ``x / max(norm, least)``, 0 where that is 0."""
    if not _whole(node):
        return False
    x, axis, least = node.x.type, attr(node, "axis") % len(node.x.type.dims), attr(node, "least")
    small = x.with_shape(tuple(1 if a == axis else n for a, n in enumerate(x.dims)))
    axes = constant(node.out, np.array([axis], np.int64), "axes")
    op = "reduce_l1" if attr(node, "p") == 1 else "reduce_l2"
    norm = state.add(op, [node.x, axes], small, node, keepdims=1, noop_with_empty_axes=0)
    if least > 0:
        norm = state.add("max", [norm, constant(node.out, np.array(least, x.dtype), "least")], small, node)
        state.replace(node.out, state.add("div", [node.x, norm], x, node))
        return True
    zero = constant(node.out, np.zeros((), x.dtype), "zero")
    none = state.add("equal", [norm, zero], TensorType(np.dtype(bool), small.shape), node)
    one = constant(node.out, np.ones((), x.dtype), "one")
    norm = state.add("where", [none, one, norm], small, node)
    state.replace(node.out, state.add("div", [node.x, norm], x, node))
    return True


@rule("common", "lrn")
def lrn(state: Sweep, node: Node) -> bool:
    """Given ``y = lrn(x)``; result ``x / (bias + alpha / size * sum of neighbors' squares) ** beta``."""
    if not _whole(node):
        return False
    x, size = node.x, attr(node, "size")
    channels = x.type.dims[-1]
    before, after = min((size - 1) // 2, channels), min(size // 2, channels)
    squares = state.add("mul", [x, x], x.type, node)
    if before + after + 1 > MOST_SHIFTS:
        place = np.arange(channels)
        apart = place[:, None] - place[None, :]
        near = constant(node.out, ((apart <= after) & (apart >= -before)).astype(x.type.dtype), "near")
        total = state.add("matmul", [squares, near], x.type, node)
    else:
        total = _neighbors(state, node, squares, before, after)
    numbers = {"share": attr(node, "alpha") / size, "bias": attr(node, "bias"), "beta": attr(node, "beta")}
    share, bias, beta = (constant(node.out, np.array(n, x.type.dtype), name) for name, n in numbers.items())
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


@rule("rare", "batch_normalization")
def open_batch_norm(state: Sweep, node: Node) -> bool:
    """Given ``y = batch_normalization(x, s, b, mean, var)`` of statistics that are computed, or of the batch's own;
    result ``(x - mean) * (s / sqrt(var + epsilon)) + b``.
    """
    x, scale, bias, mean, var = node.inputs
    assert scale is not None and bias is not None and mean is not None and var is not None
    if not known(x, scale, bias, mean, var) or not known(x, scale, bias, mean, var, dtypes=[np.float32]):
        return False
    do, running = Steps(state, node), [mean, var]
    centered = None
    if attr(node, "training_mode"):
        axes, keep = range(len(node.x.type.dims) - 1), attr(node, "momentum")
        mean = do.reduce("reduce_mean", node.x, axes)
        centered = do("sub", node.x, mean)
        var = do.reduce("reduce_mean", do("mul", centered, centered), axes)
        pairs = zip(running, (mean, var), strict=True)
        running = [do("add", do("mul", old, keep), do("mul", new, 1 - keep)) for old, new in pairs]
    factor = do("div", scale, do("sqrt", do("add", var, attr(node, "epsilon"))))
    y = do("mul", do("sub", node.x, mean) if centered is None else centered, factor)
    return do.becomes(do("add", y, bias), *running)


@rule("rare", "mean_variance_normalization")
def mean_variance(state: Sweep, node: Node) -> bool:
    """Given ``y = mean_variance_normalization(x)``; result ``(x - mean) / (deviation + 1e-9)``."""
    if not known(node.x, dtypes=[np.float32]):
        return False
    do, axes = Steps(state, node), sorted(a % len(node.x.type.dims) for a in attr(node, "axes"))
    centered = do("sub", node.x, do.reduce("reduce_mean", node.x, axes, keep=True))
    deviation = do("sqrt", do.reduce("reduce_mean", do("mul", centered, centered), axes, keep=True))
    return do.becomes(do("div", centered, do("add", deviation, 1e-9)))
