"""Convolutions whose weights are made at run time, and those of f64: their windows side by side, times the weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from ...ir import Node, TensorType, Value
from ...ir.build import constant
from ...ops.conv import transposed_window
from ...ops.registry import attr
from ...rules.moves import requantized, shaped, turn
from ...rules.rule import rule
from ...rules.sweep import Sweep

MOST_TAPS = 256
"""Larger windows stay what they are."""


@rule("stored_weights", "conv conv_transpose", quantized=True)
def stored_weights(state: Sweep, node: Node) -> bool:
    """A layer of stored numbers whose weights are made at run time: the same of the reals that they stand for."""
    w = node.inputs[1]
    assert w is not None
    if node.x.type.quant is None or w.type.quant is None or node.out.type.quant is None or _settled(state, w):
        return False
    if not all(v is None or v.type.concrete and v.type.size for v in (*node.inputs, node.out)):
        return False
    real = TensorType(np.dtype(np.float32))
    inputs = [None if v is None else requantized(state, v, real.with_shape(v.type.dims), node) for v in node.inputs]
    y = state.add(node.op, inputs, real.with_shape(node.out.type.dims), node, **node.attrs)
    state.replace(node.out, state.add("requantize", [y], node.out.type, node))
    return True


@rule("open_weights", "conv")
def open_conv(state: Sweep, node: Node) -> bool:
    """Given ``y = conv(x, w, b)`` of a w that is no constant, or in f64; result ``matmul(concat(slices of x), w) + b``,
    by groups.

    Where each channel has a window of its own: the sum of ``slice of x * w``.
    """
    if not _open(state, node) or attr(node, "auto_pad") != "NOTSET":
        return False
    assert node.inputs[1] is not None
    kernel = node.inputs[1].type.dims[1:-1]
    rank = len(kernel)
    pads, strides, dilations = (list(attr(node, name)) for name in ("pads", "strides", "dilations"))
    x = padded_around(state, node, node.x, [0, *pads[:rank], 0], [0, *pads[rank:], 0])
    starts = [[k * d for k, d in zip(at, dilations, strict=True)] for at in product(*map(range, kernel))]
    return _summed(state, node, x, starts, strides)


@rule("open_weights", "conv_transpose")
def open_conv_transpose(state: Sweep, node: Node) -> bool:
    """Given ``y = conv_transpose(x, w, b)`` of a w that is no constant; result the same of x with zeros in between."""
    if not _open(state, node):
        return False
    assert node.inputs[1] is not None
    x, kernel = node.x, node.inputs[1].type.dims[1:-1]
    begin, out, a = transposed_window(node, x.type.dims[1:-1], kernel)
    spread = [n * s for n, s in zip(x.type.dims[1:-1], a["strides"], strict=True)]
    if any(s > 1 for s in a["strides"]):
        apart = [part for n in x.type.dims[1:-1] for part in (n, 1)]
        ends = [0, *(part for s in a["strides"] for part in (0, s - 1)), 0]
        x = shaped(state, node, x, (x.type.dims[0], *apart, x.type.dims[-1]))
        x = padded_around(state, node, x, [0] * len(ends), ends)
        x = shaped(state, node, x, (x.type.dims[0], *spread, x.type.dims[-1]))
    reach = [(k - 1) * d for k, d in zip(kernel, a["dilations"], strict=True)]
    before = [r - b for r, b in zip(reach, begin, strict=True)]
    after = [n + r - m - b for n, r, m, b in zip(out, reach, spread, before, strict=True)]
    x = padded_around(state, node, x, [0, *before, 0], [0, *after, 0])
    places = product(*map(range, kernel))
    starts = [[r - k * d for r, k, d in zip(reach, at, a["dilations"], strict=True)] for at in places]
    return _summed(state, node, x, starts, [1] * len(kernel))


def _open(state: Sweep, node: Node) -> bool:
    """Whether all is f32, with weights that are made at run time, or f64, and concrete."""
    x, w = node.inputs[:2]
    assert x is not None and w is not None
    dtype = x.type.dtype
    if dtype not in (np.float32, np.float64) or (dtype == np.float32 and _settled(state, w)):
        return False
    values = [v for v in (*node.inputs, node.out) if v is not None]
    if not all(v.type.concrete and v.type.dtype == dtype and v.type.size for v in values):
        return False
    return prod(w.type.dims[1:-1]) <= MOST_TAPS


def _settled(state: Sweep, value: Value) -> bool:
    """Whether a value is a constant, or made of one alone: later passes still have to read what it stands for."""
    while value.data is None:
        maker = state.maker.get(value)
        if maker is None or not maker.inputs or any(v is not None and v.data is None for v in maker.inputs[1:]):
            return False
        value = maker.x
    return True


def _summed(state: Sweep, node: Node, x: Value, starts: Sequence[Sequence[int]], steps: Sequence[int]) -> bool:
    """The sum of the slices of x, one for each place of the window, times the weights; and the bias."""
    w, bias = node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
    assert w is not None
    groups, out = attr(node, "groups"), node.out.type.dims[1:-1]
    taps = [cut_out(state, node, x, start, out, steps, 1) for start in starts]
    alone = w.type.dims[-1] == 1 and groups == x.type.dims[-1] == w.type.dims[0]
    y = _by_channel(state, node, taps, w) if alone else _by_group(state, node, taps, w, groups)
    state.replace(node.out, y if bias is None else state.add("add", [y, bias], node.out.type, node))
    return True


def padded_around(
    state: Sweep, node: Node, x: Value, before: Sequence[int], after: Sequence[int], fill: float = 0.0
) -> Value:
    """x with zeros, or `fill`, around it; negative amounts crop."""
    if not any(before) and not any(after):
        return x
    dims = tuple(b + n + e for b, n, e in zip(before, x.type.dims, after, strict=True))
    amounts = constant(node.out, np.array([*before, *after], np.int64), "pads")
    more = [constant(node.out, np.array(fill, x.type.dtype), "fill")] if fill else []
    return state.add("pad", [x, amounts, *more], x.type.with_shape(dims), node, mode="constant")


def cut_out(state: Sweep, node: Node, x: Value, starts: Sequence[int], counts: Sequence[int], steps: Sequence[int],
         first: int) -> Value:  # fmt: skip
    """`counts` places of the axes from `first` on, from `starts` on, every `steps`."""
    axes = range(first, first + len(starts))
    ends = [start + (n - 1) * step + 1 for start, n, step in zip(starts, counts, steps, strict=True)]
    parts = zip(("starts", "ends", "axes", "steps"), (starts, ends, axes, steps), strict=True)
    cut: list[Value | None] = [constant(node.out, np.array(list(v), np.int64), name) for name, v in parts]
    dims = (*x.type.dims[:first], *counts, *x.type.dims[first + len(starts) :])
    return x if dims == x.type.dims else state.add("slice", [x, *cut], x.type.with_shape(dims), node)


def _by_channel(state: Sweep, node: Node, taps: Sequence[Value], w: Value) -> Value:
    channels, window = w.type.dims[0], prod(w.type.dims[1:-1])
    rows = turn(state, node, shaped(state, node, w, (channels, window)), (1, 0))
    total: Value | None = None
    for k, tap in enumerate(taps):
        row = cut_out(state, node, rows, [k], [1], [1], 0)
        part = state.add("mul", [tap, row], tap.type, node)
        total = part if total is None else state.add("add", [total, part], tap.type, node)
    assert total is not None
    return total


def _by_group(state: Sweep, node: Node, taps: Sequence[Value], w: Value, groups: int) -> Value:
    made, *kernel, each = w.type.dims
    perm = (*range(1, 2 + len(kernel)), 0)
    factors = turn(state, node, w, perm)
    depth, rows, results = prod(kernel) * each, node.out.type.size // made, []
    for g in range(groups):
        parts = [cut_out(state, node, tap, [g * each], [each], [1], len(tap.type.dims) - 1) for tap in taps]
        wide = parts[0].type.with_shape((*node.out.type.dims[:-1], depth))
        columns = parts[0] if len(parts) == 1 else state.add("concat", list(parts), wide, node, axis=len(wide.dims) - 1)
        own = cut_out(state, node, factors, [g * (made // groups)], [made // groups], [1], len(kernel) + 1)
        pair: list[Value | None] = [
            shaped(state, node, columns, (rows, depth)), shaped(state, node, own, (depth, made // groups))
        ]  # fmt: skip
        results.append(state.add("matmul", pair, wide.with_shape((rows, made // groups)), node))
    whole = results[0].type.with_shape((rows, made))
    y = results[0] if groups == 1 else state.add("concat", list(results), whole, node, axis=1)
    return shaped(state, node, y, node.out.type.dims)
