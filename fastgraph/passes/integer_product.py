"""ONNX's products of dynamically quantized activations, as products of rounded reals and quantized weights."""

from __future__ import annotations

import numpy as np

from ..ir import Node, Quantization, TensorType, Value
from .rewrite import Sweep, sees

REAL = {"matmul_integer": "matmul", "conv_integer": "conv"}
F32 = np.dtype(np.float32)


@sees("mul")
def integer_product(state: Sweep, node: Node) -> bool:
    """What onnxruntime's quantize_dynamic writes for a product.

    Given ``q, s, z = dynamic_quantize_linear(x)``, ``y = mul(cast(matmul_integer(q, w, z)), mul(s, c))``, w and c
    constants; result ``y = matmul(dynamic_round(x), w)``, where w is quantized with the scales c. A convolution may
    stand between transposes.
    """
    if len(node.inputs) != 2 or node.out.type.dtype != F32:
        return False
    for real, scale in (node.inputs, node.inputs[::-1]):
        cast = _maker(state, real, "cast")
        after, product = _behind_transpose(state, None if cast is None else cast.x)
        if product is None or product.op not in REAL:
            continue
        before, rounding = _behind_transpose(state, product.x)
        if rounding is None or rounding.op != "dynamic_quantize_linear" or len(rounding.outputs) != 3:
            continue
        w = _weights(state, product, rounding, scale)
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


def _maker(state: Sweep, value: Value | None, op: str) -> Node | None:
    node = None if value is None else state.maker.get(value)
    return node if node is not None and node.op == op else None


def _behind_transpose(state: Sweep, value: Value | None) -> tuple[Node | None, Node | None]:
    """(the transpose that makes a value, if one does; what makes the value, or what is transposed)."""
    turned = _maker(state, value, "transpose")
    value = value if turned is None else turned.x
    return turned, None if value is None else state.maker.get(value)


def _weights(state: Sweep, product: Node, rounding: Node, scale: Value | None) -> Value | None:
    """The weights with the constant that `scale` is a multiple of as theirs; None when it isn't that."""
    factors = _maker(state, scale, "mul")
    w, zero = product.const(1), product.const(3)
    if factors is None or rounding.outputs[1] not in factors.inputs or w is None or (product.has(3) and zero is None):
        return None
    found = next((v.data for v in factors.inputs if v is not None and v.data is not None), None)
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
