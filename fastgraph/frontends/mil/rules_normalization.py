"""Normalizations, and quantization at run time.

Semantics: coremltools/converters/mil/mil/ops/defs/iOS15/normalization.py and iOS17/quantization_ops.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from ..core.common import axis_in
from .call import Call
from .common import axes_in, extents
from .signatures import rule


def _affine(c: Call, x: Value, gamma: Value | None, beta: Value | None, length: Any) -> list[Value]:
    """Factors and summands of channels: 1 and 0 where they are absent."""
    if not isinstance(length, int) and None in (gamma, beta):
        c.unsupported("without its parameters 'gamma' and 'beta', for an input whose channels the program leaves open")
    return [c.number(np.full(length, n, x.type.dtype)) if v is None else v for v, n in ((gamma, 1), (beta, 0))]


def _channels(c: Call, x: Value) -> Any:
    if c.rank(x) < 2:
        c.fail(f"expected an input with channels as axis 1, found {x.type}")
    return extents(x, 1)[0]


@rule("batch_norm: x mean:Like variance:Like gamma:Like? beta:Like? epsilon:float=1e-05")
def batch_norm(
    c: Call, x: Value, mean: Value, variance: Value, gamma: Value | None, beta: Value | None, epsilon: float
) -> Value:
    affine = _affine(c, x, gamma, beta, mean.type.shape[0] if mean.type.shape else _channels(c, x))
    return c.to_first(c("batch_normalization", c.to_last(x), *affine, mean, variance, epsilon=epsilon))


@rule("instance_norm: x gamma:Like? beta:Like? epsilon:float=1e-05")
def instance_norm(c: Call, x: Value, gamma: Value | None, beta: Value | None, epsilon: float) -> Value:
    affine = _affine(c, x, gamma, beta, _channels(c, x))
    return c.to_first(c("instance_normalization", c.to_last(x), *affine, epsilon=epsilon))


@rule("layer_norm: x axes:Ints? gamma:Like? beta:Like? epsilon:float=1e-05")
def layer_norm(
    c: Call, x: Value, axes: tuple[int, ...] | None, gamma: Value | None, beta: Value | None, epsilon: float
) -> Value:
    """Normalization over `axes` (all when absent), which are moved to the end; gamma and beta have their extents."""
    rank = c.rank(x)
    last = sorted(range(rank) if axes is None else axes_in(c, axes, rank))
    perm = [*(a for a in range(rank) if a not in last), *last]
    affine = [c.number(1, x) if gamma is None else gamma, *([] if beta is None else [beta])]
    y = c("layer_normalization", c.transpose(x, *perm), *affine, axis=rank - len(last), epsilon=epsilon)
    return c.transpose(y, *(perm.index(a) for a in range(rank)))


@rule("l2_norm: x epsilon:float=1e-06")
def l2_norm(c: Call, x: Value, epsilon: float) -> Value:
    """x over the root of the sum of squares of its last three axes."""
    if c.rank(x) < 3:
        c.fail(f"expected an input of rank 3 or more, found {x.type}")
    total = c("reduce_sum_square", x, c.vector(-3, -2, -1), keepdims=1)
    return x / c.sqrt(total + epsilon)


# -- quantization


@rule("quantize: input scale:Array zero_point:Array? axis:int=0 output_dtype:Byte")
@rule("dequantize: input scale:Array zero_point:Array? axis:int=0")
def linear(c: Call, x: Value, scale: np.ndarray, zero: np.ndarray | None, axis: int, dtype: str | None = None) -> Value:
    """Scales and zero points (0 without) are scalars, or vectors along `axis`; `dtype` is that of the integers."""
    integers = np.dtype(dtype) if dtype else x.type.dtype
    if integers not in (np.int8, np.uint8):
        c.fail(f"expected an input of int8 or uint8, found {x.type}")
    scale = np.asarray(scale, np.float32)
    zero = np.zeros(scale.shape, integers) if zero is None else zero
    axis = axis_in(c, axis, c.rank(x)) if scale.ndim else 0
    count = extents(x, axis)[0] if scale.ndim else None
    if scale.ndim > 1 or zero.shape != scale.shape or (isinstance(count, int) and scale.shape != (count,)):
        c.fail(
            f"expected one scale and zero point, or one of each for {count} places along axis {axis}, found shapes "
            f"{list(scale.shape)} and {list(zero.shape)}"
        )
    if zero.dtype != integers:
        c.fail(f"expected a zero point of {integers}, found {zero.dtype}")
    return c(f"{c.op}_linear", x, scale, zero, axis=axis)
