"""Operators that are others in disguise: normalizations as reductions and elementwise steps, blocks as transposes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Graph, Node, TensorType, Value
from ..ops.reduce import reduced_axes
from ..ops.registry import attr
from .attention import attention_alone
from .disguises import RULES as DISGUISES
from .disguises import mean_variance_normalization
from .einsum import einsum
from .element_types import axis_at_run_time, composed, formatted, narrow, rare, resized_whole, softmax
from .moves import shaped, turn
from .open_weights import open_conv, open_conv_transpose
from .rewrite import Sweep, also_quantized, constant, sees, sweep
from .rotary import rotary_embedding


def decompose(graph: Graph) -> bool:
    """Given ``y = instance_normalization(x, s, b)``; result reduce_mean, sub, mul, sqrt, ... that kernels run."""
    before = composed, softmax, formatted, axis_at_run_time, rare, resized_whole, einsum, mean_variance_normalization
    blocks = depth_to_space, space_to_depth, space_to_batch, batch_to_space
    norms = normalization, group_normalization, reduction, power, rotary_embedding, svdf
    rules = *norms, *blocks, open_conv, open_conv_transpose, *DISGUISES
    return any([sweep(graph, *before), sweep(graph, attention_alone), sweep(graph, *rules), sweep(graph, narrow)])


@sees("instance_normalization", "layer_normalization", "rms_normalization")
def normalization(state: Sweep, node: Node) -> bool:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, in f32, over the axes of the operator; of
    rms_normalization without the mean.
    """
    x, rank = node.x, len(node.x.type.shape or ())
    if not _real(x) or len(node.outputs) > 1 and node.op != "layer_normalization":
        return False
    first = 1 if node.op == "instance_normalization" else attr(node, "axis") % rank
    last = rank - 1 if node.op == "instance_normalization" else rank
    if first == last or not all(v is None or _onto(v, x) for v in node.inputs[1:]):
        return False
    if node.op == "rms_normalization" and node.inputs[1].type.shape == x.type.dims[first:]:  # type: ignore[union-attr]
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


@sees("group_normalization")
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
    return x.type.concrete and x.type.dtype == np.float32 and x.type.size > 0


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
    epsilon = constant(node.out, np.float32(attr(node, "epsilon")), "epsilon")
    y = state.add("add", [variance, epsilon], variance.type, node)
    for op in ("sqrt", "reciprocal"):
        y = state.add(op, [y], variance.type, node)
    return y


def _affine(state: Sweep, node: Node, y: Value, values: Sequence[Value | None]) -> None:
    """y * scale + bias, as far as there are any, stands for the node's result."""
    for op, value in zip(("mul", "add"), values, strict=False):
        if value is not None:
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


POWERS = (3, 4, -2, -3, -4)
"""Exponents for which some products take less time than a logarithm."""


@sees("pow")
def power(state: Sweep, node: Node) -> bool:
    """x**n for a small whole n as products, of 1 / x where n < 0: what a product exceeds, the power does, too."""
    x, exponent = node.x, node.const(1)
    if exponent is None or exponent.size != 1 or float(exponent.item()) not in POWERS:
        return False
    if x.type.dtype != np.float32 or not x.type.concrete or x.type.shape != node.out.type.shape:
        return False
    n = int(exponent.item())
    base = x if n > 0 else state.add("reciprocal", [x], x.type, node)
    square = state.add("mul", [base, base], x.type, node)
    others = {2: [], 3: [base], 4: [square]}[abs(n)]
    state.replace(node.out, state.add("mul", [square, *others], x.type, node) if others else square)
    return True


REPEATABLE = frozenset({"reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod"})
"""Reductions of reductions, as each of their inputs counts the same."""


@sees(*REPEATABLE)
def reduction(state: Sweep, node: Node) -> bool:
    """Over axes that do not lie side by side: one run of axes after the other; over none: nothing to do."""

    axes, x = node.const(1), node.x
    known = x.type.concrete and "chain" not in node.attrs and not (axes is None and node.has(1))
    if known and reduced_axes(node, len(x.type.dims), axes) is None:
        state.replace(node.out, x)
        return True
    if axes is None:
        return False
    if not x.type.concrete or x.type.dtype is None or x.type.dtype.kind not in "iuf":
        return False
    dims = x.type.dims
    chosen = sorted({int(a) % len(dims) for a in axes.ravel() if dims[int(a) % len(dims)] != 1})
    runs = _runs(chosen)
    if len(runs) < 2 or not x.type.size:
        return False
    y, left = x, list(dims)
    for run in runs:
        left = [1 if i in run else d for i, d in enumerate(left)]
        at = constant(node.out, np.array(run, np.int64), "axes")
        y = state.add(node.op, [y, at], x.type.with_shape(tuple(left)), node, keepdims=1, noop_with_empty_axes=0)
    state.replace(node.out, shaped(state, node, y, node.out.type.dims))
    return True


def _runs(axes: list[int]) -> list[list[int]]:
    """Sorted numbers in runs of neighbors."""
    runs: list[list[int]] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


@also_quantized
@sees("depth_to_space")
def depth_to_space(state: Sweep, node: Node) -> bool:
    """Channels become blocks of pixels: reshape, transpose, reshape."""
    if not node.x.type.concrete or not node.x.type.size or len(node.x.type.dims) != 4:
        return False
    n, h, w, c = node.x.type.dims
    b = attr(node, "blocksize")
    if attr(node, "mode") == "DCR":
        split, perm = (n, h, w, b, b, c // b // b), (0, 1, 3, 2, 4, 5)
    else:
        split, perm = (n, h, w, c // b // b, b, b), (0, 1, 4, 2, 5, 3)
    return _blocks(state, node, split, perm)


@also_quantized
@sees("space_to_depth")
def space_to_depth(state: Sweep, node: Node) -> bool:
    """Blocks of pixels become channels: reshape, transpose, reshape."""
    if not node.x.type.concrete or not node.x.type.size or len(node.x.type.dims) != 4:
        return False
    n, h, w, c = node.x.type.dims
    b = attr(node, "blocksize")
    perm = (0, 1, 3, 2, 4, 5) if attr(node, "mode") == "DCR" else (0, 1, 3, 5, 2, 4)
    return _blocks(state, node, (n, h // b, b, w // b, b, c), perm)


@also_quantized
@sees("space_to_batch")
def space_to_batch(state: Sweep, node: Node) -> bool:
    """Places within a block become batches: pad, reshape, transpose, reshape."""
    found = _blocked(node)
    if found is None:
        return False
    block, pairs = found
    x, k, rank = node.x, len(block), len(node.x.type.dims)
    before, after = [0] * rank, [0] * rank
    for i, (low, high) in enumerate(pairs, 1):
        before[i], after[i] = low, high
    dims = tuple(b + d + a for b, d, a in zip(before, x.type.dims, after, strict=True))
    if any(before) or any(after):
        pads = constant(node.out, np.array([*before, *after], np.int64), "pads")
        x = state.add("pad", [x, pads], x.type.with_shape(dims), node, mode="constant")
    cut = [part for d, b in zip(dims[1:], block, strict=False) for part in (d // b, b)]
    split = shaped(state, node, x, (dims[0], *cut, *dims[k + 1 :]))
    perm = (*range(2, 2 * k + 1, 2), 0, *range(1, 2 * k, 2), *range(2 * k + 1, rank + k))
    state.replace(node.out, shaped(state, node, turn(state, node, split, perm), node.out.type.dims))
    return True


@also_quantized
@sees("batch_to_space")
def batch_to_space(state: Sweep, node: Node) -> bool:
    """Batches become places within a block: reshape, transpose, reshape, slice."""
    found = _blocked(node)
    if found is None:
        return False
    block, pairs = found
    dims, k = node.x.type.dims, len(block)
    n = dims[0] // int(np.prod(block))
    split = shaped(state, node, node.x, (*block, n, *dims[1:]))
    perm = (k, *(a for i in range(k) for a in (k + 1 + i, i)), *range(2 * k + 1, len(dims) + k))
    whole = (n, *(d * b for d, b in zip(dims[1:], block, strict=False)), *dims[k + 1 :])
    y = shaped(state, node, turn(state, node, split, perm), whole)
    if any(any(pair) for pair in pairs):
        ends = [whole[i] - high for i, (_, high) in enumerate(pairs, 1)]
        parts = [[low for low, _ in pairs], ends, [*range(1, k + 1)]]
        names = ("starts", "ends", "axes")
        cut = [constant(node.out, np.array(p, np.int64), name) for p, name in zip(parts, names, strict=True)]
        y = state.add("slice", [y, *cut], node.out.type, node)
    state.replace(node.out, y)
    return True


def _blocked(node: Node) -> tuple[list[int], list[tuple[int, int]]] | None:
    """The block and the pairs (before, after) of a node with constant parameters, else None."""
    block, pairs = node.const(1), node.const(2)
    if block is None or pairs is None or not node.out.type.concrete or not node.out.type.size or not node.x.type.size:
        return None
    return [int(b) for b in block.ravel()], [(int(a), int(b)) for a, b in pairs.reshape(-1, 2)]


def _blocks(state: Sweep, node: Node, split: tuple[int, ...], perm: tuple[int, ...]) -> bool:
    moved: Value = turn(state, node, shaped(state, node, node.x, split), perm)
    state.replace(node.out, shaped(state, node, moved, node.out.type.dims))
    return True


@also_quantized
@sees("svdf")
def svdf(state: Sweep, node: Node) -> bool:
    """What filters make of x is put behind what they remember; the sum of that times weights, over a unit's filters."""
    x, memory, feature, time, bias = (*node.inputs, None)[:5]
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    real = TensorType(np.dtype(np.float32))
    full = all(v.type.concrete and v.type.size and (v.type.quant or v.type.dtype == real.dtype) for v in values)
    if not full or x is None or memory is None or feature is None or time is None or len(node.outputs) != 2:
        return False
    (batch, units), (filters, length) = node.out.type.dims, time.type.dims
    newest = state.add("dense", [x, feature, None], memory.type.with_shape((batch, filters)), node)
    kept = shaped(state, node, newest, (batch * filters, 1))
    if length > 1:
        lines = shaped(state, node, memory, (batch * filters, length))
        at = [constant(node.out, np.array([n], np.int64), "at") for n in (1, length, 1)]
        older = state.add("slice", [lines, *at], memory.type.with_shape((batch * filters, length - 1)), node)
        kept = state.add("concat", [older, kept], lines.type, node, axis=1)
    weighed = state.add("mul", [shaped(state, node, kept, (batch, filters, length)), time],
                        real.with_shape((batch, filters, length)), node)  # fmt: skip
    lines = shaped(state, node, weighed, (batch, units, filters // units * length))
    axis = constant(node.out, np.array([2], np.int64), "axis")
    y = state.add("reduce_sum", [lines, axis], real.with_shape((batch, units)), node, keepdims=0)
    state.replace(node.out, state.add("add", [y, _bias(node, bias)], node.out.type, node))
    state.replace(node.outputs[1], shaped(state, node, kept, node.outputs[1].type.dims))
    return True


def _bias(node: Node, bias: Value | None) -> Value:
    """The bias, or one that changes nothing."""
    return constant(node.out, np.zeros(1, np.float32), "bias") if bias is None else bias
