"""ONNX's products of dynamically quantized activations, as products of rounded reals and quantized weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import FLOAT32, INT32, Node, Quantization, TensorType, Value
from ...ops.cast import PLAIN
from ...ops.shape import permutation
from ...ops.window import resolve_pads, window_attrs
from ...rules.operands import BYTES, SUMMED, WHOLE
from ...rules.rule import rule
from ...rules.sweep import Sweep

REAL = {"matmul_integer": "matmul", "conv_integer": "conv"}
EXACT = 1 << 24
"""The limit below which f32 sums of whole numbers are exact."""


@rule("scaled_products", "mul")
def integer_product(g: Sweep, node: Node) -> bool:
    """The form of a product that onnxruntime's quantize_dynamic writes.

    Given ``q, s, z = dynamic_quantize_linear(x)``, ``y = mul(cast(matmul_integer(q, w, z)), mul(s, c))``, w and c
    constants; result ``y = matmul(dynamic_round(x), w)``, where w is quantized with the scales c. A convolution may
    stand between transposes, and the factors in any order. Depthwise: ``r, s = dynamic_round(x)``, ``y = mul(conv(r,
    w), mul(s, c))`` on the whole numbers r and w, whose sums f32 holds.
    """
    if len(node.inputs) != 2 or node.out.type.dtype != FLOAT32:
        return False
    factors = _factors(g, node)
    for real in factors:
        cast = g.made_by(real, "cast")
        after, product = _behind_transposes(g, None if cast is None else cast.x)
        if product is None or product.op not in REAL:
            continue
        before, rounding = _behind_transposes(g, product.x)
        if rounding is None or rounding.op != "dynamic_quantize_linear" or len(rounding.outputs) != 3:
            continue
        rest = [v for v in factors if v is not real]
        found = next((v for v in rest if v.data is not None), None)
        if len(rest) != 2 or found is None or rounding.outputs[1] not in rest:
            continue
        w = _weights(product, found.data, _last_axis(after, len(product.out.type.shape or ())))
        if w is None or product.inputs[2:3] != [rounding.outputs[2]] or not product.out.type.concrete:
            continue
        y = _layer(g, product, rounding, before, after, w)
        return y is not None and y.type.shape == node.out.type.shape and g.becomes(y)
    return False


def _layer(g: Sweep, product: Node, rounding: Node, before: list[Node], after: list[Node], w: Value) -> Value | None:
    """The product of the rounded value, between its transposes; None where neither int32 nor f32 sums are exact."""
    grid: dict[str, Any] = {"per": "tensor", "grid": "onnx"}
    x = _transposed(g, rounding.x, before)
    assert w.type.quant is not None
    if product.op == "matmul_integer" or not _is_depthwise(product, w.array):
        if len(product.out.type.dims) > 4:
            return None  # the layers of bytes have no volumes, and in f32 Winograd's transforms would round
        y = g(REAL[product.op], g("dynamic_round", x, **grid), w, **product.attrs)
        return _transposed(g, y, after)
    away = _centered(w.array, w.type.quant.zero_point, 0)
    if 255 * np.abs(away).reshape(len(away), -1).sum(1).max(initial=0) >= EXACT:
        return None
    whole, step = g.several("dynamic_round", 2, x, **grid)
    scales = np.array(w.type.quant.scale, np.float32)
    scale = step * (scales if len(scales) > 1 else scales.reshape(()))
    return _transposed(g, g("conv", whole, away.astype(np.float32), **product.attrs) * scale, after)


def _factors(g: Sweep, node: Node) -> list[Value]:
    """The factors of a product of products."""
    found: list[Value] = []
    for value in node.inputs:
        inner = g.made_by(value, "mul")
        found += [value] if inner is None else _factors(g, inner)  # type: ignore[list-item]
    return found


@rule("whole_products", "matmul_integer conv_integer")
def whole_product(g: Sweep, node: Node) -> bool:
    """A product of stored numbers whose sums int32 holds becomes a product of reals with scale 1.

    Given ``y = matmul_integer(x, w, z)``, w constant; result ``y = matmul(x, w)``, all three in steps of 1. A computed
    zero point of x pads a convolution's map, and its share is subtracted from the sums. Depthwise sums are exact in
    f32.
    """
    x, w = node.x, node.inputs[1]
    zero, w_zero = (node.inputs[i] if node.has(i) else None for i in (2, 3))
    if w is None or w.data is None or w.data.dtype not in BYTES or not node.out.type.concrete or not node.out.type.size:
        return False
    matrices = node.op == "matmul_integer"
    axis = 1 if matrices else 0
    points = _zero_points(w, w_zero, axis)
    if points is None or x.type.dtype not in BYTES or not x.type.size or zero is not None and zero.type.size != 1:
        return False
    if w.data.ndim != 2 if matrices else _is_depthwise(node, w.data) and w.data[0].size <= SUMMED:
        return False
    computed = zero if zero is not None and zero.data is None else None
    at = 0 if zero is None or zero.data is None else int(zero.data.reshape(()))
    attrs = node.attrs
    if computed is not None and not matrices:
        x, attrs = _padded(g, node, x, computed)
    reals = g("reinterpret", x, type=TensorType(x.type.dtype, x.type.shape, Quantization((1.0,), (at,))))
    steps = Quantization((1.0,) * len(points), points, axis if len(points) > 1 else None)
    weights = Value.constant(w.name, w.data, steps)
    y = g(REAL[node.op], reals, weights, type=TensorType(INT32, node.out.type.shape, WHOLE), **attrs)
    y = g("reinterpret", y, type=node.out.type)
    if computed is not None:
        others = tuple(i for i in range(w.data.ndim) if i != axis)
        sums = _centered(w.data, points, axis).sum(others).astype(np.int32)
        y = y - g("cast", computed, to=INT32, **PLAIN) * sums
    return g.becomes(y)


def _padded(g: Sweep, node: Node, x: Value, zero: Value) -> tuple[Value, dict[str, Any]]:
    """A convolution's map padded with a computed zero point, and the attributes without pads."""
    kernel = node.inputs[1].type.dims[1:-1]  # type: ignore[union-attr]
    a = window_attrs(node, len(kernel), kernel)
    begin, end = resolve_pads(x.type.dims[1:-1], kernel, a["strides"], a["dilations"], a["auto_pad"], a["pads"])
    for axis, (first, last) in enumerate(zip(begin, end, strict=True), 1):
        around = [(*x.type.dims[:axis], max(count, 0), *x.type.dims[axis + 1 :]) for count in (first, last)]
        above, below = ([g.broadcast(g.shape(zero), *dims)] * (dims[axis] > 0) for dims in around)
        x = g.join([*above, x, *below], axis)
    return x, {**node.attrs, "auto_pad": "NOTSET", "pads": tuple(min(n, 0) for n in (*begin, *end))}


def _zero_points(w: Value, zero: Value | None, axis: int) -> tuple[int, ...] | None:
    """The zero points of weights: one, or one for each index along an axis."""
    if zero is None:
        return (0,)
    if zero.data is None or zero.data.size not in (1, w.type.dims[axis]):
        return None
    return tuple(int(z) for z in zero.data.reshape(-1))


def _behind_transposes(g: Sweep, value: Value | None) -> tuple[list[Node], Node | None]:
    """(the transposes between a value and its source, in order; the node that gives the source)."""
    found: list[Node] = []
    while (turned := g.made_by(value, "transpose")) is not None:
        found.insert(0, turned)
        value = turned.x
    return found, None if value is None else g.maker.get(value)


def _transposed(g: Sweep, x: Value, like: list[Node]) -> Value:
    """x after the same transposes."""
    for node in like:
        x = g("transpose", x, **node.attrs)
    return x


def _last_axis(through: list[Node], rank: int) -> int:
    """The position of the last axis after transposes."""
    axis = rank - 1
    for node in through:
        axis = permutation(node).index(axis)
    return axis - rank


def _is_depthwise(node: Node, w: np.ndarray) -> bool:
    return bool(node.attrs["groups"] > 1 and w.shape[-1] == 1)


def _centered(w: np.ndarray, points: Sequence[int], axis: int) -> np.ndarray:
    """Stored weights less their zero points, one or one for each index along an axis, as int64."""
    shape = [-1 if i == axis else 1 for i in range(w.ndim)]
    return np.asarray(w.astype(np.int64) - np.array(points).reshape(shape if len(points) > 1 else ()))


def _weights(product: Node, factor: Any, channels: int) -> Value | None:
    """The weights with a constant as their scale: one, or one for each channel along an axis of what it multiplies."""
    w, zero = product.const(1), product.const(3)
    if w is None or (product.has(3) and zero is None):
        return None
    axis, rank = (1, 2) if product.op == "matmul_integer" else (0, w.ndim)
    if w.ndim != rank or w.dtype not in (np.int8, np.uint8):
        return None
    n, zeros = w.shape[axis], np.zeros(1, np.int64) if zero is None else zero.reshape(-1).astype(np.int64)
    one = factor.size == 1 or factor.ndim >= -channels and factor.size == n == factor.shape[channels]
    if not one or zeros.size not in (1, n) or not (np.isfinite(factor).all() and (factor > 0).all()):
        return None
    count = max(factor.size, zeros.size)
    scales, points = (np.broadcast_to(v.reshape(-1), count).tolist() for v in (factor.astype(np.float64), zeros))
    quant = Quantization(tuple(scales), tuple(points), axis if count > 1 else None)
    return Value.constant(product.inputs[1].name, w, quant)  # type: ignore[union-attr]


@rule("whole_products reference", "dynamic_quantize_linear")
def rounded_by_range(g: Sweep, node: Node) -> bool:
    """dynamic_quantize_linear as elementwise steps: [x rounded to 256 steps over its range, 0 included; the step; the
    zero point]. Where a layer rounds x itself, nothing reads these."""
    x = node.x
    if not x.type.concrete or x.type.dtype != FLOAT32:
        return False
    axes = range(len(x.type.dims))
    least, most = g.min(g.smallest(x, axes), 0), g.max(g.largest(x, axes), 0)
    step = (most - least) / 255
    step = g.choose(g.equal(step, 0), 1, step)
    zero = g("round", g.clip(-least / step, 0, 255))
    whole = g.clip(g("round", x / step) + zero, 0, 255)
    return g.becomes(_byte(g, whole), step, _byte(g, zero))


def _byte(g: Sweep, x: Value) -> Value:
    """uint8 of whole numbers from 0 to 255."""
    for kind in (np.int32, np.uint8):
        x = g("cast", x, to=np.dtype(kind), **PLAIN)
    return x
