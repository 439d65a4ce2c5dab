"""Quantized values as ONNX writes them: numbers, a scale and a zero point, each an operand of its own; and ONNX's
layers on them, written as their QDQ form where the parameters are known.

That form reads reals out of stored numbers (dequantize_linear), computes on them, and stores the result
(quantize_linear): what the passes make integer kernels of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .spatial import convolution

Attrs = dict[str, Any]

CAST: Attrs = {"saturate": 1, "round_mode": "up", "format": ""}


def real(call: Call, x: Value, scale: Value, zero: Value | None, axis: int = 1) -> Value:
    """The reals that stored numbers stand for; scales, or zero points, along `axis` where there are several."""
    if zero is not None and scale.data is not None and zero.data is not None and 1 in (scale.data.size, zero.data.size):
        count = max(scale.data.size, zero.data.size)
        if count > 1:
            scale, zero = (call.const(np.broadcast_to(v.data.reshape(-1), count)) for v in (scale, zero))  # type: ignore[union-attr]
    return call.add("dequantize_linear", [x, scale, zero], axis=axis)


def stored(call: Call, y: Value, scale: Value, zero: Value | None, like: Value) -> Value:
    """Reals as stored numbers of the zero point's type; without a zero point it is 0, of the type of `like`."""
    if zero is None:
        zero = call.add("cast_like", [call.const(0), like], **CAST)
    return call.add("quantize_linear", [y, scale, zero], axis=1)


def taken(call: Call, at: int) -> Value:
    """The reals of the operand whose numbers, scale and zero point are inputs `at` and on."""
    return real(call, call.x(at), call.x(at + 1), call.input(at + 2))


def given(call: Call, y: Value, at: int, like: int = 0) -> Value:
    """`y` stored by the scale and zero point of inputs `at` and on; without the second, as input `like` is."""
    return stored(call, y, call.x(at), call.input(at + 1), call.x(like))


def factors(call: Call, a: Value, b: Value) -> Value:
    """The product of two scales, or of scales with one: a scalar or a vector, known at once if both are."""
    if a.data is not None and b.data is not None and 1 in (a.data.size, b.data.size):
        product = np.multiply(a.data.reshape(-1), b.data.reshape(-1))
        return call.const(product if product.size > 1 else product.reshape(()))
    return call.add("mul", [a, b])


def _known(call: Call, *indices: int) -> bool:
    return all(value is None or value.data is not None for value in map(call.input, indices))


def qlinear_conv(call: Call, attrs: Attrs) -> Value:
    """onnxruntime's also has channels_last, which says where the channels of x and y are."""
    last = bool(attrs.get("channels_last"))
    if not _known(call, 1, 2, 4, 5, 6, 7):
        return convolution(call, attrs, "qlinear_conv", call.inputs, 3, last)
    units = factors(call, call.x(1), call.x(4))
    bias = None if call.input(8) is None else real(call, call.x(8), units, None, 0)
    weights = real(call, call.x(3), call.x(4), call.x(5), 0)
    return given(call, convolution(call, attrs, "conv", [taken(call, 0), weights, bias], 1, last), 6)


def qlinear_matmul(call: Call, attrs: Attrs) -> Value:
    """Scales for rows of the first operand, of the result, or of a batch stay what they are."""
    wide = [v for i in (1, 2, 6, 7) if (v := call.x(i)).data is None or v.data.size != 1]
    wide += [v for i in (4, 5) if (v := call.x(i)).data is None or v.data.size != 1 and v.data.ndim != 1]
    if wide:
        return call.add("qlinear_matmul", call.inputs)
    b = real(call, call.x(3), call.x(4), call.x(5), -1)
    return given(call, call.add("matmul", [taken(call, 0), b]), 6)


LINEAR = {"QLinearConv": qlinear_conv, "QLinearMatMul": qlinear_matmul}
