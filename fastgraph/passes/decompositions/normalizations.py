"""Normalizations as reductions and elementwise steps; group normalization, which older files write by reshapes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce

import numpy as np

from ...ir import FLOAT32, Node, Value
from ...ops.registry import OPS, Layout, attr
from ...ops.shape import permutation
from ...rules.operands import known
from ...rules.rule import rule
from ...rules.sweep import Sweep

FLOATS = (FLOAT32, np.dtype(np.float64))
MOST_SHIFTS = 9
"""The most neighbors that are added one by one; more are a product with a banded matrix of ones."""


@rule("common", "instance_normalization layer_normalization rms_normalization")
def normalization(g: Sweep, node: Node) -> bool:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the operator's axes; rms_normalization without the
    mean."""
    x, rank = node.x, len(node.x.type.shape or ())
    if not known(x, dtypes=FLOATS) or len(node.outputs) > 1 and node.op != "layer_normalization":
        return False
    first = 1 if node.op == "instance_normalization" else attr(node, "axis") % rank
    last = rank - 1 if node.op == "instance_normalization" else rank
    if first == last or not all(v is None or _broadcasts(v, x) for v in node.inputs[1:]):
        return False
    own = x.type.dtype == np.float32 and node.op == "rms_normalization"
    if own and node.inputs[1].type.shape == x.type.dims[first:]:  # type: ignore[union-attr]
        return False  # a kernel's
    axes = range(first, last)
    mean = x if node.op == "rms_normalization" else g.mean(x, axes, keep=True)
    centered = x if node.op == "rms_normalization" else x - mean
    inverse = _inverse(g, node, g.mean(centered * centered, axes, keep=True))
    return g.becomes(_affine(centered * inverse, node.inputs[1:3]), g.cast(mean, FLOAT32), g.cast(inverse, FLOAT32))


@rule("common", "group_normalization")
def group_normalization(g: Sweep, node: Node) -> bool:
    """The same over groups of channels: means over a channel first, then over the channels of each group."""
    x, groups = node.x, attr(node, "num_groups")
    if not known(x, dtypes=FLOATS) or not all(v is not None and v.type.dtype == x.type.dtype for v in node.inputs[1:]):
        return False
    n, c, *spatial = x.type.dims
    column, axes = (c, *(1 for _ in spatial)), range(2, len(x.type.dims))

    def within(mean: Value) -> Value:
        """The mean over each group of the means of its channels, repeated for each channel: [N, groups, 1]."""
        return g.mean(g.shape(mean, n, groups, c // groups), [2], keep=True)

    def spread(mean: Value) -> Value:
        return g.shape(g.broadcast(mean, n, groups, c // groups), n, *column)

    centered = x - spread(within(g.mean(x, axes, keep=True)))
    inverse = _inverse(g, node, within(g.mean(centered * centered, axes, keep=True)))
    return g.becomes(_affine(centered * spread(inverse), [v and g.shape(v, *column) for v in node.inputs[1:3]]))


def _inverse(g: Sweep, node: Node, variance: Value) -> Value:
    """1 / deviation: one division for many elements."""
    return g.reciprocal(g.sqrt(variance + attr(node, "epsilon")))


def _affine(y: Value, values: Sequence[Value | None]) -> Value:
    """y * scale + bias; factors of 1 and terms of 0 are left out."""
    scale, bias = (*values, None)[:2]
    if scale is not None and (scale.data is None or (scale.data != 1).any()):
        y = y * scale
    return y if bias is None or bias.data is not None and not bias.data.any() else y + bias


def _broadcasts(value: Value, x: Value) -> bool:
    """Whether a value is of x's element type and broadcasts to it."""
    dims, target = value.type.shape or (), x.type.dims
    pairs = zip(reversed(dims), reversed(target), strict=False)
    same = value.type.concrete and value.type.dtype == x.type.dtype
    return same and len(dims) <= len(target) and all(a in (1, b) for a, b in pairs)


@rule("common", "lp_normalization", quantized=True)
def lp_normalization(g: Sweep, node: Node) -> bool:
    """Given ``y = lp_normalization(x)``; result ``x / max(norm, least)``, 0 where that is 0; on reals, between two
    `requantize`s where values are quantized.
    """
    x, out, least = g.reals(node.x), node.out.type, attr(node, "least")
    if not known(x, dtypes=FLOATS):
        return False
    op = "reduce_l1" if attr(node, "p") == 1 else "reduce_l2"
    norm = g.reduce(op, x, [attr(node, "axis") % len(x.type.dims)], keep=True)
    y = x / (g.max(norm, least) if least > 0 else g.choose(g.equal(norm, 0), 1, norm))
    return g.becomes(y if out.quant is None else g.requantize(y, out))


@rule("common", "lrn")
def lrn(g: Sweep, node: Node) -> bool:
    """Given ``y = lrn(x)``; result ``x / (bias + alpha / size * sum of neighbors' squares) ** beta``."""
    x, size = node.x, attr(node, "size")
    if not known(x, dtypes=FLOATS):
        return False
    *lead, n = x.type.dims
    before, after = min((size - 1) // 2, n), min(size // 2, n)
    squares = x * x
    if before + after + 1 > MOST_SHIFTS:
        shift = np.arange(n)[:, None] - np.arange(n)
        total = squares @ ((shift <= after) & (shift >= -before)).astype(x.type.dtype)
    else:
        padded = g.pad(squares, [*(0 for _ in lead), before], [*(0 for _ in lead), after])
        total = reduce(operator.add, (g.cut(padded, len(lead), i, i + n) for i in range(before + after + 1)))
    share, bias, beta = attr(node, "alpha") / size, attr(node, "bias"), attr(node, "beta")
    return g.becomes(x / (total * share + bias) ** beta)


@rule("rare", "batch_normalization")
def open_batch_norm(g: Sweep, node: Node) -> bool:
    """Given ``y = batch_normalization(x, s, b, mean, var)`` of statistics that are computed, or of the batch's own;
    result ``(x - mean) * (s / sqrt(var + epsilon)) + b``.
    """
    x, scale, bias, mean, var = node.operands
    if not known(x, scale, bias, mean, var, dtypes=FLOATS):
        return False
    scale, bias, mean, var = (g.cast(v, x.type.dtype) for v in (scale, bias, mean, var))
    running = [mean, var]
    if attr(node, "training_mode"):
        axes, keep = range(len(x.type.dims) - 1), attr(node, "momentum")
        mean = g.mean(x, axes)
        centered = x - mean
        var = g.mean(centered * centered, axes)
        running = [old * keep + new * (1 - keep) for old, new in zip(running, (mean, var), strict=True)]
    else:
        centered = x - mean
    y = centered * (scale / g.sqrt(var + attr(node, "epsilon"))) + bias
    return g.becomes(
        y, *(g.cast(new, old.type.dtype) for new, old in zip(running, node.inputs[3:], strict=True) if old)
    )


@rule("rare", "mean_variance_normalization")
def mean_variance(g: Sweep, node: Node) -> bool:
    """Given ``y = mean_variance_normalization(x)``; result ``(x - mean) / (deviation + 1e-9)``."""
    if not known(node.x, dtypes=FLOATS):
        return False
    axes = sorted(a % len(node.x.type.dims) for a in attr(node, "axes"))
    centered = node.x - g.mean(node.x, axes, keep=True)
    return g.becomes(centered / (g.sqrt(g.mean(centered * centered, axes, keep=True)) + 1e-9))


DEPTH = 6
"""The most elementwise operators above a value through which a transpose is looked for."""


@rule("early", "instance_normalization")
def grouped_channels(g: Sweep, node: Node) -> bool:
    """Given ``y = reshape(instance_normalization(reshape(u, [n, groups, -1])), [n, c, h, w])`` of u from a
    channels-last layer; result ``y = group_normalization(u) {num_groups=groups}``, which needs no transpose."""
    scale, bias, flat = node.const(1), node.const(2), _before(g, node.x)
    if scale is None or bias is None or flat is None or node.out.type.dtype != np.float32:
        return False
    u, groups = flat.x, scale.size
    dims = u.type.dims
    if len(dims) < 3 or groups == 0 or dims[1] % groups or not u.type.size or not _channels_last(g, u, DEPTH):
        return False
    rows = (dims[0], groups, u.type.size // (dims[0] * groups))
    if node.x.type.dims != (rows[0], rows[2], rows[1]):
        return False
    parameters = [np.repeat(v, dims[1] // groups) for v in (scale, bias)]
    y = g("group_normalization", u, *parameters, num_groups=groups, epsilon=attr(node, "epsilon"))
    return g.becomes(g.transpose(g.shape(y, *rows), 0, 2, 1))


def _before(g: Sweep, value: Value) -> Node | None:
    """The reshape that gives a value, or that of its transpose; for one group it is the value's own."""
    turned = g.made_by(value, "transpose")
    return g.made_by(turned.x if turned is not None and permutation(turned) == (0, 2, 1) else value, "reshape")


def _channels_last(g: Sweep, value: Value | None, depth: int) -> bool:
    """Whether a value comes, through elementwise work, from a transpose that moved the last axis to the second."""
    node = None if value is None else g.maker.get(value)
    if node is None or depth == 0:
        return False
    if node.op == "transpose":
        perm = permutation(node)
        return len(perm) > 2 and perm[1] == len(perm) - 1
    each = OPS[node.op].layout is Layout.EACH or node.op == "concat"
    return each and any(_channels_last(g, v, depth - 1) for v in node.inputs)
