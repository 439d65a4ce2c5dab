"""Arithmetic, comparisons and conversions, element by element with broadcasting. Semantics: TFLite's kernels."""

from __future__ import annotations

import numpy as np

from ...ir import Value
from .call import Call


def not_equal(c: Call, x: Value, y: Value) -> Value:
    return ~c.equal(x, y)


def rsqrt(c: Call, x: Value) -> Value:
    return c.reciprocal(c.sqrt(x))


def square(c: Call, x: Value) -> Value:
    return x * x


def squared_difference(c: Call, x: Value, y: Value) -> Value:
    difference = x - y
    return difference * difference


def floor_div(c: Call, x: Value, y: Value) -> Value:
    if x.type.quant is None and x.type.dtype is not None and x.type.dtype.kind in "iu":
        return c("floor_div", x, y)
    return c.floor(x / y)


def zeros_like(c: Call, x: Value) -> Value:
    shape = c("shape", x)
    return c("expand", c.number(0, x), shape)


def select_rows(c: Call, condition: Value, x: Value, y: Value) -> Value:
    """A condition of rank 1 chooses whole rows."""
    rank, shape = len(x.type.shape or ()), condition.type.shape
    if rank > 1 and shape is not None and len(shape) == 1:
        condition = c("reshape", condition, c.vector(-1, *[1] * (rank - 1)))
    return c("where", condition, x, y)


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
