"""Means of 16-bit integers over windows, whose halves are rounded away from the number that stands for 0.0."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir import Node, TensorType
from ...ops.pool import counts
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep
from ..quantized.integer_product import PLAIN

F32 = np.dtype(np.float32)
LARGEST = 256
"""Elements of a window whose sums f32 holds, and whose means it tells from whole numbers."""


@rule("other_types", "average_pool", quantized=True)
def word_pool(g: Sweep, node: Node) -> bool:
    """Given ``y = average_pool(x) {ties=0.0}``, both int16 of one scale; result ``y = sign(s) * floor((abs(s) + n // 2)
    / n)``, s the sums of x's stored numbers over windows as a convolution, n how many they are of.
    """
    x, kernel = node.x, attr(node, "kernel_shape")
    quant, ties = x.type.quant, node.attrs.get("ties")
    if ties != 0 or quant is None or any(quant.zero_point) or x.type.dtype != np.int16 or not x.type.concrete:
        return False
    if not node.out.type.concrete or not node.out.type.size or prod(kernel) > LARGEST or attr(node, "ceil_mode"):
        return False
    channels, out = x.type.dims[-1], node.out.type
    numbers = g("cast", g("reinterpret", x, type=TensorType(x.type.dtype, x.type.shape)), to=F32, **PLAIN)
    window = {name: node.attrs[name] for name in ("strides", "dilations", "pads", "auto_pad", "kernel_shape")}
    sums = g("conv", numbers, np.ones((channels, *kernel, 1), F32), groups=channels, **window)
    many = counts(node, x.type.dims[1:-1])
    size = g.floor((abs(sums) + (many // 2).astype(F32)) / many.astype(F32))
    y = g("cast", g("sign", sums) * size, to=x.type.dtype, **PLAIN)
    return g.becomes(g("reinterpret", y, type=out))
