"""Products of integers that give reals, written as onnxruntime's quantize_dynamic writes them node by node."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .contrib import Attrs, contrib
from .linear import CAST, real


@contrib("MatMulIntegerToFloat: A B a_scale b_scale a_zero_point? b_zero_point? bias? -> Y")
def matmul_to_float(call: Call, attrs: Attrs) -> Value:
    a, b, a_scale, b_scale = (call.x(i) for i in range(4))
    return integer_product(call, (a, a_scale, call.input(4)), (b, b_scale, call.input(5)), call.input(6))


@contrib("DynamicQuantizeMatMul: A B b_scale b_zero_point? bias? -> Y")
def dynamic_matmul(call: Call, attrs: Attrs) -> Value:
    stored, scale, zero = call.add_many("dynamic_quantize_linear", [call.x(0)], {}, 3)
    return integer_product(call, (stored, scale, zero), (call.x(1), call.x(2), call.input(3)), call.input(4))


Linear = tuple[Value, Value, Value | None]
"""Stored numbers, scale and zero point; the scale and zero point of B may be one for each column."""


def integer_product(call: Call, a: Linear, b: Linear, bias: Value | None) -> Value:
    """The product of the reals that A and B stand for, plus a bias: summed in integers."""
    known = [v.data is not None for v in (*a[1:], *b[1:]) if v is not None]
    if all(known):
        y = call.add("matmul", [real(call, *a), real(call, *b, axis=-1)])
    else:
        sums = call.add("matmul_integer", [a[0], b[0], a[2], b[2]])
        to: Any = {**CAST, "to": np.dtype(np.float32)}
        y = call.add("mul", [call.add("cast", [sums], **to), call.add("mul", [a[1], b[1]])])
    return y if bias is None else call.add("add", [y, bias])
