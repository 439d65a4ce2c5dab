"""Means of 16-bit integers over windows, whose halves are rounded away from the number that stands for 0.0."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...ir import Node, TensorType, Value
from ...ir.build import constant
from ...ops.pool import counts
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep
from ..quantized.integer_product import PLAIN

F32 = np.dtype(np.float32)
LARGEST = 256
"""Elements of a window whose sums f32 holds, and whose means it tells from whole numbers."""


@rule("other_types", "average_pool", quantized=True)
def word_pool(state: Sweep, node: Node) -> bool:
    """Given ``y = average_pool(x) {ties=0.0}``, both int16 of one scale; result ``y = sign(s) * floor((abs(s) + n // 2)
    / n)``, s the sums of x's stored numbers over windows as a convolution, n how many they are of.
    """
    x, kernel = node.x, attr(node, "kernel_shape")
    quant, ties = x.type.quant, node.attrs.get("ties")
    if ties != 0 or quant is None or any(quant.zero_point) or x.type.dtype != np.int16 or not x.type.concrete:
        return False
    if not node.out.type.concrete or not node.out.type.size or prod(kernel) > LARGEST or attr(node, "ceil_mode"):
        return False
    channels, real = x.type.dims[-1], TensorType(F32, node.out.type.shape)

    def add(op: str, *inputs: Value, type_: TensorType = real, **attrs: Any) -> Value:
        return state.add(op, list(inputs), type_, node, **attrs)

    stored = add("reinterpret", x, type_=TensorType(x.type.dtype, x.type.shape))
    numbers = add("cast", stored, type_=TensorType(F32, x.type.shape), to=F32, **PLAIN)
    ones = constant(node.out, np.ones((channels, *kernel, 1), F32), "ones")
    window = {name: node.attrs[name] for name in ("strides", "dilations", "pads", "auto_pad", "kernel_shape")}
    sums = add("conv", numbers, ones, groups=channels, **window)
    many = counts(node, x.type.dims[1:-1])
    count, half = (constant(node.out, a.astype(F32), "count") for a in (many, many // 2))
    size = add("floor", add("div", add("add", add("abs", sums), half), count))
    whole = TensorType(x.type.dtype, node.out.type.shape)
    y = add("cast", add("mul", add("sign", sums), size), type_=whole, to=whole.dtype, **PLAIN)
    state.replace(node.out, add("reinterpret", y, type_=node.out.type))
    return True
