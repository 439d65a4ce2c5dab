"""Arithmetic, conversions, activations and normalizations, reductions. Semantics: TFLite's kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir import BOOL, Value
from ..core.common import axis_in, floor_div
from .call import Call
from .common import computed, same_dtype

FORMULAS: dict[str, Callable[..., Value | None]] = {
    "clamp": lambda c, x, low, high: c.clip(x, low, high),
    "floor_div": floor_div,
    "not_equal": lambda c, x, y: ~c.equal(x, y),
    "rsqrt": lambda c, x: c.reciprocal(c.sqrt(x)),
    "square": lambda c, x: x * x,
    "zeros_like": lambda c, x: c("expand", c.number(0, x), c("shape", x)),
}


def squared_difference(c: Call, x: Value, y: Value) -> Value:
    difference = x - y
    return difference * difference


def select_rows(c: Call, condition: Value, x: Value, y: Value) -> Value:
    """A condition of rank 1 chooses whole rows."""
    rank, shape = len(x.type.shape or ()), condition.type.shape
    if rank > 1 and shape is not None and len(shape) == 1:
        condition = c("reshape", condition, c.vector(-1, *[1] * (rank - 1)))
    return c.choose(condition, x, y)


def requantize(c: Call, x: Value) -> None:
    """Between reals and stored numbers, or from one quantization to another."""
    named = c.outputs[0] if c.op == "QUANTIZE" else x
    halves = c.op == "DEQUANTIZE" and x.type.dtype == np.float16
    if named.type.quant is None and not halves:
        c.fail(f"expected a scale and a zero point of {named}, found {named.type} without them")
    c.write("requantize", [x])


def densify(c: Call, x: Value) -> Value:
    """Sparse constants are decoded as they are read."""
    if x.data is None:
        c.fail(f"expected a sparse constant, found {x} that is computed")
    return x


# activations and normalizations


def softmax(c: Call, x: Value, beta: float) -> Value:
    """Softmax of the input times beta, along the last axis. Bytes may become int16."""
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


def reduction(c: Call, x: Value, axes: Value, keepdims: int) -> Value:
    """TFLite lets an axis be named more than once; a scalar has axis 0 and -1, of one element."""
    shape = x.type.shape
    if axes.data is not None and shape is not None:
        named = dict.fromkeys(axis_in(c, int(a), max(len(shape), 1)) for a in axes.data)
        axes = c.vector(*(named if shape else ()))
    return c(c.canonical, x, axes, keepdims=keepdims, noop_with_empty_axes=1)


def of_bools(c: Call, x: Value, axes: Value, keepdims: int) -> Value:
    """Some files carry bools as floats."""
    return c.cast(reduction(c, c.cast(x, BOOL), axes, keepdims), c.outputs[0].type.dtype)
