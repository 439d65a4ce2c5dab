"""Products of integers that give reals, written as onnxruntime's quantize_dynamic writes them node by node."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import contrib
from .linear import real

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
