"""ONNX's products of dynamically quantized activations, as products of rounded reals and quantized weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Node, Quantization, TensorType, Value
from ..explicit_quantization import BYTES
from ..rewrite import Sweep, constant

REAL = {"matmul_integer": "matmul", "conv_integer": "conv"}
F32 = np.dtype(np.float32)
PLAIN: dict[str, Any] = {"saturate": 1, "round_mode": "up", "format": ""}


def integer_product(state: Sweep, node: Node) -> bool:
    """What onnxruntime's quantize_dynamic writes for a product.

    Given ``q, s, z = dynamic_quantize_linear(x)``, ``y = mul(cast(matmul_integer(q, w, z)), mul(s, c))``, w and c
    constants; result ``y = matmul(dynamic_round(x), w)``, where w is quantized with the scales c. A convolution may
    stand between transposes, and the factors in any order.
    """
    if len(node.inputs) != 2 or node.out.type.dtype != F32:
        return False
    factors = _factors(state, node)
    for real in factors:
        cast = _maker(state, real, "cast")
        after, product = _behind_transpose(state, None if cast is None else cast.x)
        if product is None or product.op not in REAL:
            continue
        before, rounding = _behind_transpose(state, product.x)
        if rounding is None or rounding.op != "dynamic_quantize_linear" or len(rounding.outputs) != 3:
            continue
        rest = [v for v in factors if v is not real]
        w = _weights(state, product, rounding, rest)
        if w is None or product.inputs[2:3] != [rounding.outputs[2]] or not product.out.type.concrete:
            continue
        x = rounding.x
        if before is not None:
            x = state.add("transpose", [x], x.type.with_shape(before.out.type.shape), before, **before.attrs)
        x = state.add("dynamic_round", [x], x.type, rounding, per="tensor", grid="onnx")
        type_ = TensorType(F32, product.out.type.shape)
        y = state.add(REAL[product.op], [x, w], type_, product, **product.attrs)
        if after is not None:
            y = state.add("transpose", [y], type_.with_shape(after.out.type.shape), after, **after.attrs)
        if y.type.shape != node.out.type.shape:
            return False
        state.replace(node.out, y)
        return True
    return False


def _factors(state: Sweep, node: Node) -> list[Value]:
    """What is multiplied, where products are factors of products."""
    found: list[Value] = []
    for value in node.inputs:
        inner = _maker(state, value, "mul")
        found += [value] if inner is None else _factors(state, inner)  # type: ignore[list-item]
    return found


def whole_product(state: Sweep, node: Node) -> bool:
    """A product of whole numbers, none of whose sums f32 rounds, as that of the reals that they stand for.

    Given ``y = matmul_integer(x, w, z)``, w constant; result ``y = cast(matmul(x, w))``, both quantized in steps of 1.
    A zero point of x that is computed is taken off the sums of a product of matrices.
    """
    x, w = node.x, node.inputs[1]
    zero, w_zero = (node.inputs[i] if node.has(i) else None for i in (2, 3))
    if w is None or w.data is None or w.data.dtype not in BYTES or not node.out.type.concrete or not node.out.type.size:
        return False
    axis = 1 if node.op == "matmul_integer" else 0
    points = _points(w, w_zero, axis)
    known = zero is None or zero.data is not None
    if points is None or x.type.dtype not in BYTES or zero is not None and zero.type.size != 1:
        return False
    if node.op == "matmul_integer" and w.data.ndim != 2 or not known and node.op != "matmul_integer":
        return False
    shape = [-1 if i == axis else 1 for i in range(w.data.ndim)]
    away = w.data.astype(np.int64) - np.array(points).reshape(shape if len(points) > 1 else ())
    if np.abs(away).sum(tuple(i for i in range(w.data.ndim) if i != axis)).max(initial=0) * 256 > 1 << 24:
        return False
    at = 0 if zero is None or zero.data is None else int(zero.data.reshape(()))
    reals = state.add("reinterpret", [x], TensorType(x.type.dtype, x.type.shape, Quantization((1.0,), (at,))), node)
    steps = Quantization((1.0,) * len(points), points, axis if len(points) > 1 else None)
    type_ = TensorType(F32, node.out.type.shape)
    y = state.add(REAL[node.op], [reals, Value.constant(w.name, w.data, steps)], type_, node, **node.attrs)
    if not known and zero is not None:
        off = state.add("cast", [zero], TensorType(F32, zero.type.shape), node, to=F32, **PLAIN)
        sums = constant(node.out, away.sum(0).astype(np.float32), "sums")
        y = state.add("sub", [y, state.add("mul", [off, sums], sums.type, node)], type_, node)
    state.replace(node.out, state.add("cast", [y], node.out.type, node, to=node.out.type.dtype, **PLAIN))
    return True


def _points(w: Value, zero: Value | None, axis: int) -> tuple[int, ...] | None:
    """The zero points of weights, one or one for each place along an axis."""
    if zero is None:
        return (0,)
    if zero.data is None or zero.data.size not in (1, w.type.dims[axis]):
        return None
    return tuple(int(z) for z in zero.data.reshape(-1))


def _maker(state: Sweep, value: Value | None, op: str) -> Node | None:
    node = None if value is None else state.maker.get(value)
    return node if node is not None and node.op == op else None


def _behind_transpose(state: Sweep, value: Value | None) -> tuple[Node | None, Node | None]:
    """(the transpose that makes a value, if one does; what makes the value, or what is transposed)."""
    turned = _maker(state, value, "transpose")
    value = value if turned is None else turned.x
    return turned, None if value is None else state.maker.get(value)


def _weights(state: Sweep, product: Node, rounding: Node, factors: list[Value]) -> Value | None:
    """The weights with the constant among the factors as their scale; None unless the other is that of x."""
    w, zero = product.const(1), product.const(3)
    if len(factors) != 2 or rounding.outputs[1] not in factors or w is None or (product.has(3) and zero is None):
        return None
    found = next((v.data for v in factors if v.data is not None), None)
    axis, rank = (1, 2) if product.op == "matmul_integer" else (0, w.ndim)
    if found is None or w.ndim != rank or w.dtype not in (np.int8, np.uint8):
        return None
    # Of a convolution the channels are not the last axis here: only one scale is sure to mean them.
    n = w.shape[axis] if product.op == "matmul_integer" and found.shape == w.shape[axis:] else 1
    zeros = np.zeros(1, np.int64) if zero is None else zero.reshape(-1).astype(np.int64)
    if found.size != n or zeros.size not in (1, n) or not (np.isfinite(found).all() and (found > 0).all()):
        return None
    scales = tuple(float(s) for s in found.reshape(-1))
    points = tuple(int(z) for z in np.broadcast_to(zeros, n))
    quant = Quantization(scales, points, axis if n > 1 else None)
    return Value.constant(product.inputs[1].name, w, quant)  # type: ignore[union-attr]


def rounded_by_range(state: Sweep, node: Node) -> bool:
    """[x rounded to 256 steps from its least to its greatest number, or 0; the step; the number of 0], step by step.

    Where a layer that rounds for itself takes x, nobody reads these any more.
    """
    x = node.x
    if not x.type.concrete or x.type.dtype != F32 or not x.type.size or not x.type.dims:
        return False
    one = TensorType(F32, ())
    axes = constant(node.out, np.arange(len(x.type.dims), dtype=np.int64), "axes")
    kept: Any = {"keepdims": 0, "noop_with_empty_axes": 0}

    def add(op: str, *inputs: Value, type_: TensorType = one, **attrs: Any) -> Value:
        return state.add(op, list(inputs), type_, node, **attrs)

    def number(value: float) -> Value:
        return constant(node.out, np.float32(value), "number")

    least = add("min", add("reduce_min", x, axes, **kept), number(0))
    most = add("max", add("reduce_max", x, axes, **kept), number(0))
    step = add("div", add("sub", most, least), number(255))
    flat = add("equal", step, number(0), type_=TensorType(np.dtype(bool), ()))
    step = add("where", flat, number(1), step)
    zero = add("round", add("clip", add("div", add("neg", least), step), number(0), number(255)))
    whole = add("add", add("round", add("div", x, step, type_=x.type), type_=x.type), zero, type_=x.type)
    held = add("clip", whole, number(0), number(255), type_=x.type)
    outs = (_byte(state, node, held), step, _byte(state, node, zero))
    for old, new in zip(node.outputs, outs, strict=False):
        state.replace(old, new)
    return True


def _byte(state: Sweep, node: Node, x: Value) -> Value:
    """uint8 of whole numbers from 0 to 255."""
    kinds = (np.dtype(np.int32), np.dtype(np.uint8))
    for kind in kinds:
        x = state.add("cast", [x], TensorType(kind, x.type.shape), node, to=kind, **PLAIN)
    return x
