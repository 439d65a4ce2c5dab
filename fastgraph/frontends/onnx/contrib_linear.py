"""Quantized operators of onnxruntime's QOperator format, written as their QDQ form: see `linear`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call, shape_of
from .contrib import Attrs, contrib
from .linear import factors, given, qlinear_conv, real, taken
from .spatial import global_pool, pool

_BINARY = "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point? -> C"
_UNARY = "X X_scale X_zero_point? Y_scale Y_zero_point? -> Y"
_WINDOW = "auto_pad=NOTSET channels_last=0 pads:ints? strides:ints?"

contrib(
    "QLinearConv: x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B? -> y"
    f" | {_WINDOW} dilations:ints? group=1 kernel_shape:ints?"
)(qlinear_conv)


@contrib("QuantizeLinear: x y_scale y_zero_point? -> y | axis=1")
def quantize(call: Call, attrs: Attrs) -> Value:
    zero = call.input(2)
    name = "" if zero is None else call.reader.formats.get(zero, "")
    value = call.add("quantize_linear", call.inputs, axis=attrs["axis"], format=name)
    if name:
        call.reader.formats[value] = name
    return value


@contrib("DequantizeLinear: x x_scale x_zero_point? -> y | axis=1")
def dequantize(call: Call, attrs: Attrs) -> Value:
    return call.add("dequantize_linear", call.inputs, axis=attrs["axis"])


@contrib(f"QLinearAdd: {_BINARY}", f"QLinearMul: {_BINARY}")
def binary(call: Call, attrs: Attrs) -> Value:
    op = "add" if call.op.endswith("Add") else "mul"
    return given(call, call.add(op, [taken(call, 0), taken(call, 3)]), 6)


@contrib(f"QLinearSigmoid: {_UNARY}")
def sigmoid(call: Call, attrs: Attrs) -> Value:
    return given(call, call.add("sigmoid", [taken(call, 0)]), 3)


@contrib(f"QLinearLeakyRelu: {_UNARY} | alpha=0.01")
def leaky_relu(call: Call, attrs: Attrs) -> Value:
    return given(call, call.add("leaky_relu", [taken(call, 0)], alpha=attrs["alpha"]), 3)


@contrib("QLinearSoftmax: X X_scale x_zero_point? y_scale y_zero_point -> Y | axis=-1 opset:int!")
def softmax(call: Call, attrs: Attrs) -> Value:
    x = taken(call, 0)
    if attrs["opset"] >= 13:
        return given(call, call.add("softmax", [x], axis=attrs["axis"]), 3)
    rows = call.add("softmax", [call.add("flatten", [x], axis=attrs["axis"])], axis=-1)
    return given(call, call.add("reshape", [rows, shape_of(call, x)], allowzero=1), 3)


@contrib("QLinearConcat: Y_scale Y_zero_point inputs* -> Y | axis:int!")
def concat(call: Call, attrs: Attrs) -> Value:
    if len(call.inputs) < 5 or len(call.inputs) % 3 != 2:
        call.fail(f"expected a scale and a zero point for each operand, found {len(call.inputs)} inputs")
    parts = [taken(call, i) for i in range(2, len(call.inputs), 3)]
    return given(call, call.add("concat", parts, axis=attrs["axis"]), 0, like=2)


@contrib("QLinearWhere: condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point -> Z")
def where(call: Call, attrs: Attrs) -> Value:
    return given(call, call.add("where", [call.x(0), taken(call, 1), taken(call, 4)]), 7)


@contrib(
    "QLinearReduceMean: data data_scale data_zero_point? reduced_scale reduced_zero_point? -> reduced"
    " | axes:ints! keepdims:int!"
)
def reduce_mean(call: Call, attrs: Attrs) -> Value:
    axes = call.const(list(attrs["axes"]))
    y = call.add("reduce_mean", [taken(call, 0), axes], keepdims=attrs["keepdims"], noop_with_empty_axes=0)
    return given(call, y, 3)


@contrib("QLinearGlobalAveragePool: X x_scale x_zero_point y_scale y_zero_point -> Y | channels_last=0")
def global_average_pool(call: Call, attrs: Attrs) -> Value:
    return given(call, global_pool(call, "reduce_mean", taken(call, 0), bool(attrs["channels_last"])), 3)


@contrib(
    "QLinearAveragePool: X x_scale x_zero_point? y_scale y_zero_point? -> Y"
    f" | {_WINDOW} ceil_mode=0 count_include_pad=0 kernel_shape:ints!"
)
def average_pool(call: Call, attrs: Attrs) -> Value:
    (y,) = pool(call, attrs, "average_pool", taken(call, 0), 1, "count_include_pad")
    return given(call, y, 3)


@contrib(
    "QGemm: A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point? -> Y | alpha=1.0 transA=0 transB=0"
)
def gemm(call: Call, attrs: Attrs) -> Value:
    """Sums and C are in units of alpha times the operands' scales; without y_scale the result is real."""
    if (call.input(7) is None) != (call.input(8) is None):
        call.fail("expected y_scale and y_zero_point together, found one of them")
    b_scale = call.x(4)
    if attrs["alpha"] != 1:
        b_scale = factors(call, b_scale, call.const(attrs["alpha"], dtype=np.float32))
    b = real(call, call.x(3), b_scale, call.x(5), 0 if attrs["transB"] else 1)
    c = None if call.input(6) is None else real(call, call.x(6), factors(call, call.x(1), b_scale), None, -1)
    flags: Any = {"trans_a": attrs["transA"], "trans_b": attrs["transB"], "alpha": 1.0, "beta": 1.0}
    y = call.add("gemm", [taken(call, 0), b, c], **flags)
    return y if call.input(7) is None else given(call, y, 7)
