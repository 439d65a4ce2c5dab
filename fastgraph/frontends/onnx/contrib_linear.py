"""Quantized operators of onnxruntime: those of its QOperator format are written as their QDQ form (see `linear`),
products of integers that give reals as its quantize_dynamic writes them node by node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call, as_is
from .contrib import contrib
from .linear import factors, given, on_reals, qlinear_conv, real, taken
from .spatial import global_pool, pool

_BINARY = "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point? -> C"
_UNARY = "X X_scale X_zero_point? Y_scale Y_zero_point? -> Y"
_WINDOW = "auto_pad=NOTSET channels_last=0 pads:ints? strides:ints?"

contrib(f"QLinearAdd: {_BINARY}")(on_reals("add", takes=(0, 3), gives=6))
contrib(f"QLinearMul: {_BINARY}")(on_reals("mul", takes=(0, 3), gives=6))
contrib(f"QLinearSigmoid: {_UNARY}")(on_reals("sigmoid", takes=(0,), gives=3))
contrib(f"QLinearLeakyRelu: {_UNARY} | alpha=0.01")(on_reals("leaky_relu", takes=(0,), gives=3))
contrib("QLinearWhere: condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point -> Z")(
    lambda c, condition, *_: given(c, c("where", condition, taken(c, 1), taken(c, 4)), 7)
)
contrib("DequantizeLinear: x x_scale x_zero_point? -> y | axis=1")(as_is("dequantize_linear"))
contrib(
    "QLinearConv: x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B? -> y"
    f" | {_WINDOW} dilations:ints? group=1 kernel_shape:ints?"
)(qlinear_conv)


@contrib("QuantizeLinear: x y_scale y_zero_point? -> y | axis=1")
def quantize(c: Call, x: Value, scale: Value, zero: Value | None, axis: int) -> Value:
    name = c.format_of(zero)
    return c.in_format(c("quantize_linear", x, scale, zero, axis=axis, format=name), name)


@contrib("QLinearSoftmax: X X_scale x_zero_point? y_scale y_zero_point -> Y | axis=-1 opset:int!")
def softmax(c: Call, *_: Value | None, axis: int, opset: int) -> Value:
    x = taken(c, 0)
    if opset >= 13:
        return given(c, c("softmax", x, axis=axis), 3)
    rows = c("softmax", c("flatten", x, axis=axis), axis=-1)
    return given(c, c("reshape", rows, c.extents(x), allowzero=1), 3)


@contrib("QLinearConcat: Y_scale Y_zero_point inputs* -> Y | axis:int!")
def concat(c: Call, *inputs: Value, axis: int) -> Value:
    if len(inputs) < 5 or len(inputs) % 3 != 2:
        c.fail(f"expected a scale and a zero point for each operand, found {len(inputs)} inputs")
    return given(c, c("concat", *(taken(c, i) for i in range(2, len(inputs), 3)), axis=axis), 0, like=2)


contrib(
    "QLinearReduceMean: data data_scale data_zero_point? reduced_scale reduced_zero_point? -> reduced"
    " | axes:ints! keepdims:int!"
)(lambda c, *_, axes, keepdims: given(c, c("reduce_mean", taken(c, 0), axes, keepdims=keepdims), 3))
contrib("QLinearGlobalAveragePool: X x_scale x_zero_point y_scale y_zero_point -> Y | channels_last=0")(
    lambda c, *_, channels_last: given(c, global_pool(c, "reduce_mean", taken(c, 0), bool(channels_last)), 3)
)


@contrib(
    "QLinearAveragePool: X x_scale x_zero_point? y_scale y_zero_point? -> Y"
    f" | {_WINDOW} ceil_mode=0 count_include_pad=0 kernel_shape:ints!"
)
def average_pool(c: Call, *_: Value | None, **attrs: Any) -> Value:
    (y,) = pool(c, attrs, "average_pool", taken(c, 0), 1, "count_include_pad")
    return given(c, y, 3)


@contrib(
    "QGemm: A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point? -> Y | alpha=1.0 transA=0 transB=0"
)
def gemm(c: Call, *inputs: Any, alpha: float, transA: int, transB: int) -> Value:
    """Sums and C are in units of alpha times the operands' scales; without y_scale the result is real."""
    _, a_scale, _, b, b_scale, b_zero, bias, y_scale, y_zero = inputs
    if (y_scale is None) != (y_zero is None):
        c.fail("expected y_scale and y_zero_point together, found one of them")
    if alpha != 1:
        b_scale = factors(c, b_scale, c.number(alpha, b_scale))
    b = real(c, b, b_scale, b_zero, 0 if transB else 1)
    bias = None if bias is None else real(c, bias, factors(c, a_scale, b_scale), None, -1)
    y = c("gemm", taken(c, 0), b, bias, trans_a=transA, trans_b=transB)
    return y if y_scale is None else given(c, y, 7)


Linear = tuple[Value, Value, Value | None]
"""Stored numbers, scale and zero point; the scale and zero point of B may be one for each column."""


@contrib("MatMulIntegerToFloat: A B a_scale b_scale a_zero_point? b_zero_point? bias? -> Y")
def matmul_to_float(c: Call, *inputs: Any) -> Value:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = inputs
    return integer_product(c, (a, a_scale, a_zero), (b, b_scale, b_zero), bias)


@contrib("DynamicQuantizeMatMul: A B b_scale b_zero_point? bias? -> Y")
def dynamic_matmul(c: Call, a: Value, b: Value, scale: Value, zero: Value | None, bias: Value | None) -> Value:
    stored, a_scale, a_zero = c.several("dynamic_quantize_linear", 3, a)
    return integer_product(c, (stored, a_scale, a_zero), (b, scale, zero), bias)


def integer_product(c: Call, a: Linear, b: Linear, bias: Value | None) -> Value:
    """The product of the reals that A and B stand for, plus a bias: summed in integers."""
    if all(v is None or v.data is not None for v in (*a[1:], *b[1:])):
        y = real(c, *a) @ real(c, *b, axis=-1)
    else:
        y = c.cast(c("matmul_integer", a[0], b[0], a[2], b[2]), np.float32) * (a[1] * b[1])
    return y if bias is None else y + bias
