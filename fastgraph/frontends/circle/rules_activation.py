"""Activation functions and normalizations. Semantics: TFLite's kernels."""

from __future__ import annotations

import numpy as np

from ...ir import Value
from .call import Call
from .common import computed, same_dtype


def clamp(c: Call, x: Value, low: int, high: int) -> Value:
    return c.clip(x, low, high)


def softmax(c: Call, x: Value, beta: float) -> Value:
    """Along the last axis, of the input times beta. Bytes may become int16."""
    out = c.outputs[0]
    computed(c, x, out)
    if x.type.quant is None or out.type.quant is None or out.type.dtype != np.int16:
        same_dtype(c, x, out)
    return c("softmax", x if beta == 1 else x * beta, axis=-1)


def local_response(c: Call, x: Value, alpha: float, beta: float, bias: float) -> Value:
    radius = c.options.radius
    if radius < 0:
        c.fail(f"expected a radius of 0 or more, found {radius}")
    size = 2 * radius + 1
    return c("lrn", x, size=size, alpha=alpha * size, beta=beta, bias=bias)
