"""Quantized values as ONNX writes them: numbers, a scale and a zero point, each an operand of its own; and ONNX's
layers on them, written as their QDQ form where the parameters are known.

That form reads reals out of stored numbers (dequantize_linear), computes on them, and stores the result
(quantize_linear): what the passes make integer kernels of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call, Rule
from .spatial import convolution


def real(c: Call, x: Value, scale: Value, zero: Value | None, axis: int = 1) -> Value:
    """The reals that stored numbers stand for; scales, or zero points, along `axis` where there are several."""
    if zero is not None and scale.data is not None and zero.data is not None and 1 in (scale.data.size, zero.data.size):
        count = max(scale.data.size, zero.data.size)
        if count > 1:
            scale, zero = (c.const(np.broadcast_to(data.reshape(-1), count)) for data in (scale.data, zero.data))
    return c("dequantize_linear", x, scale, zero, axis=axis)


def taken(c: Call, at: int) -> Value:
    """The reals of the operand whose numbers, scale and zero point are inputs `at` and on."""
    return real(c, c.x(at), c.x(at + 1), c.input(at + 2))


def given(c: Call, y: Value, at: int, like: int = 0) -> Value:
    """`y` stored by the scale and zero point of inputs `at` and on; without the second it is 0, of the type of input
    `like`.
    """
    zero = c.input(at + 1)
    return c("quantize_linear", y, c.x(at), c("cast_like", 0, c.x(like)) if zero is None else zero, axis=1)


def on_reals(op: str, takes: tuple[int, ...], gives: int) -> Rule:
    """The rule of an operator on reals; where the inputs of its operands and its result begin."""
    return lambda c, *_, **attrs: given(c, c(op, *(taken(c, at) for at in takes), **attrs), gives)


def factors(c: Call, a: Value, b: Value) -> Value:
    """The product of two scales, or of scales with one: a scalar or a vector, known at once if both are."""
    if a.data is not None and b.data is not None and 1 in (a.data.size, b.data.size):
        product = np.multiply(a.data.reshape(-1), b.data.reshape(-1))
        return c.const(product if product.size > 1 else product.reshape(()))
    return a * b


def qlinear_conv(c: Call, *inputs: Any, **attrs: Any) -> Value:
    """onnxruntime's also has channels_last, which says where the channels of x and y are."""
    _, x_scale, _, w, w_scale, w_zero, *_, bias = inputs
    last = bool(attrs.get("channels_last"))
    if any(inputs[i].data is None for i in (1, 2, 4, 5, 6, 7)):
        return convolution(c, attrs, "qlinear_conv", inputs, 3, last)
    bias = None if bias is None else real(c, bias, factors(c, x_scale, w_scale), None, 0)
    operands = [taken(c, 0), real(c, w, w_scale, w_zero, 0), bias]
    return given(c, convolution(c, attrs, "conv", operands, 1, last), 6)


def qlinear_matmul(c: Call, *inputs: Any) -> Value:
    """Scales for rows of the first operand, of the result, or of a batch stay what they are."""
    _, _, _, w, w_scale, w_zero, *_ = inputs
    known = [inputs[i].data for i in (1, 2, 4, 5, 6, 7)]
    if any(data is None for data in known):
        return c("qlinear_matmul", *inputs)
    if any(data.size != 1 and (i not in (2, 3) or data.ndim != 1) for i, data in enumerate(known)):
        return c("qlinear_matmul", *inputs)
    return given(c, taken(c, 0) @ real(c, w, w_scale, w_zero, -1), 6)


LINEAR: dict[str, Rule] = {"QLinearConv": qlinear_conv, "QLinearMatMul": qlinear_matmul}
