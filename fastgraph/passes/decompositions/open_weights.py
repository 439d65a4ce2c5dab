"""Convolutions with weights or a bias computed at run time, and those of f64: slices for each tap times the weights."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from itertools import product
from math import prod

import numpy as np

from ...ir import FLOAT32, Node, TensorType, Value
from ...ops.conv import is_dense, transposed_window
from ...ops.registry import attr
from ...ops.window import is_near
from ...rules.operands import known, real
from ...rules.rule import rule
from ...rules.sweep import Sweep

MOST_TAPS = 256
"""Larger windows are not decomposed."""


@rule("stored_weights", "conv conv_transpose", quantized=True)
def stored_weights(g: Sweep, node: Node) -> bool:
    """A layer with quantized weights, or a bias, that are computed at run time becomes one on their reals."""
    w = node.y
    if any(v.type.quant is None for v in (node.x, w, node.out)) or _foldable(g, w) and not _adds_computed(g, node):
        return False
    if not all(v is None or v.type.concrete and v.type.size for v in (*node.inputs, node.out)):
        return False
    f32 = TensorType(np.dtype(np.float32))
    inputs = [None if v is None else g.requantize(v, f32.with_shape(v.type.dims)) for v in node.inputs]
    y = g(node.op, *inputs, type=f32.with_shape(node.out.type.dims), **node.attrs)
    return g.becomes(g("requantize", y, type=node.out.type))


@rule("open_weights", "conv conv_transpose")
def open_bias(g: Sweep, node: Node) -> bool:
    """Given ``y = conv(x, w, b)`` of a w that is constant, and a b that is not; result ``conv(x, w) + b``."""
    if not (_adds_computed(g, node) and _foldable(g, node.y) and known(*node.inputs, node.out, dtypes=[FLOAT32])):
        return False
    return g.becomes(g(node.op, node.x, node.y, type=node.out.type, **node.attrs) + node.inputs[2])


@rule("open_weights", "conv")
def open_conv(g: Sweep, node: Node) -> bool:
    """Given ``y = conv(x, w, b)`` of a w that is no constant, or in f64; result ``matmul(concat(slices of x), w) + b``,
    by groups.

    Where each channel has a window of its own: the sum of ``slice of x * w``. What kernels compute loses its bias only.
    """
    if not _is_computed(g, node) or attr(node, "auto_pad") != "NOTSET":
        return False
    if _is_native(node):
        bias = node.input(2)
        return bias is not None and g.becomes(g("conv", node.x, node.y, type=node.out.type, **node.attrs) + bias)
    kernel = node.y.type.dims[1:-1]
    if prod(kernel) > MOST_TAPS:
        return False
    rank = len(kernel)
    pads, strides, dilations = (list(attr(node, name)) for name in ("pads", "strides", "dilations"))
    x = g.pad(node.x, [0, *pads[:rank], 0], [0, *pads[rank:], 0])
    starts = [[k * d for k, d in zip(at, dilations, strict=True)] for at in product(*map(range, kernel))]
    return _summed(g, node, x, starts, strides)


@rule("open_weights", "conv_transpose")
def open_conv_transpose(g: Sweep, node: Node) -> bool:
    """Given ``y = conv_transpose(x, w, b)`` of a w that is no constant; result the same of x with zeros in between."""
    if not _is_computed(g, node) or prod(node.y.type.dims[1:-1]) > MOST_TAPS:
        return False
    (n, *sizes, channels), kernel = node.x.type.dims, node.y.type.dims[1:-1]
    begin, out, a = transposed_window(node, sizes, kernel)
    strides, dilations = a["strides"], a["dilations"]
    apart = g.shape(node.x, n, *(part for size in sizes for part in (size, 1)), channels)
    ends = [0, *(part for s in strides for part in (0, s - 1)), 0]
    spread = [size * s for size, s in zip(sizes, strides, strict=True)]
    x = g.shape(g.pad(apart, [0] * len(ends), ends), n, *spread, channels)
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    before = [r - b for r, b in zip(reach, begin, strict=True)]
    after = [size + r - m - b for size, r, m, b in zip(out, reach, spread, before, strict=True)]
    x = g.pad(x, [0, *before, 0], [0, *after, 0])
    places = product(*map(range, kernel))
    starts = [[r - k * d for r, k, d in zip(reach, at, dilations, strict=True)] for at in places]
    return _summed(g, node, x, starts, [1] * len(kernel))


def _is_computed(g: Sweep, node: Node) -> bool:
    """Whether all values are concrete, and f32 with weights computed at run time, or f64."""
    w, dtype = node.y, node.x.type.dtype
    if not real(dtype) or dtype == np.float32 and _foldable(g, w):
        return False
    return known(*node.inputs, node.out, dtypes=[dtype])


def _is_native(node: Node) -> bool:
    """Whether a kernel packs the weights of the convolution, in f32 and of several taps or a stride, in each run."""
    return not is_dense(node) and node.x.type.dtype == FLOAT32 and len(node.x.type.dims) <= 5 and is_near(node)


def _adds_computed(g: Sweep, node: Node) -> bool:
    """Whether a convolution has a bias that is computed at run time."""
    bias = node.input(2)
    return bias is not None and not _foldable(g, bias)


def _foldable(g: Sweep, value: Value) -> bool:
    """Whether a value is a constant, or computed from one alone: later passes still fold it."""
    while value.data is None:
        maker = g.maker.get(value)
        if maker is None or not maker.inputs or any(v is not None and v.data is None for v in maker.inputs[1:]):
            return False
        value = maker.x
    return True


def _summed(g: Sweep, node: Node, x: Value, starts: Sequence[Sequence[int]], steps: Sequence[int]) -> bool:
    """The sum over taps of slices of x times the tap's weights, plus the bias."""
    w, bias = node.y, node.input(2)
    groups, out = attr(node, "groups"), node.out.type.dims[1:-1]
    taps = [cut_out(g, x, start, out, steps) for start in starts]
    if w.type.dims[-1] == 1 and groups == x.type.dims[-1] == w.type.dims[0]:
        rows = g.transpose(g.shape(w, groups, len(taps)), 1, 0)
        y = reduce(operator.add, (tap * g.cut(rows, 0, k, k + 1) for k, tap in enumerate(taps)))
    else:
        y = _by_group(g, node, taps, w, groups)
    return g.becomes(y if bias is None else y + bias)


def cut_out(g: Sweep, x: Value, starts: Sequence[int], counts: Sequence[int], steps: Sequence[int] = ()) -> Value:
    """A slice: `counts` elements along the axes from 1 on, from `starts` on, by `steps`."""
    every = steps or [1] * len(starts)
    ends = [start + (n - 1) * step + 1 for start, n, step in zip(starts, counts, every, strict=True)]
    return g.slice(x, range(1, 1 + len(starts)), starts, ends, steps)


def _by_group(g: Sweep, node: Node, taps: Sequence[Value], w: Value, groups: int) -> Value:
    made, *kernel, each = w.type.dims
    factors = g.transpose(w, *range(1, 2 + len(kernel)), 0)
    rank, rows, columns, results = len(kernel) + 2, node.out.type.size // made, made // groups, []
    for i in range(groups):
        parts = [g.cut(tap, rank - 1, i * each, (i + 1) * each) for tap in taps]
        own = g.cut(factors, rank - 1, i * columns, (i + 1) * columns)
        depth = prod(kernel) * each
        results.append(g.shape(g.join(parts, rank - 1), rows, depth) @ g.shape(own, depth, columns))
    return g.shape(g.join(results, axis=1), *node.out.type.dims)
