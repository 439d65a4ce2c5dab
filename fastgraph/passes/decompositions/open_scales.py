"""Changes of quantization, and products of stored numbers, whose scales and zero points are computed."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...ir import Node, Value
from ...ops.narrow import INTEGERS, is_narrow
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .element_types import F32, F64, I32, I64
from .writing import Steps, known, operand

SMALL = tuple(np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16))
"""Stored numbers that f32 holds."""
MOST = float(np.finfo(np.float32).max)
SUMMED = 1 << 8
"""How many products of bytes f32 sums without rounding."""


def wider(dtype: Any) -> np.dtype:
    """The element type of floats, but for f16."""
    return F64 if dtype == F64 else F32


@rule("rare", "quantize_linear")
def quantized(state: Sweep, node: Node) -> bool:
    """Given ``y = quantize_linear(x, s, z)``; result ``cast(clip(round(x / s) + z))``, for floats ``cast(x / s)``."""
    do, x, scale, zero = Steps(state, node), node.x, node.inputs[1], operand(node, 2)
    dtype, kind = node.out.type.dtype, attr(node, "format")
    if scale is None or not known(x, scale, zero) or dtype not in (*SMALL, F32):
        return False
    wide = wider(attr(node, "precision") or scale.type.dtype)
    y = do("div", do.cast(x, wide), _spread(do, do.cast(scale, wide)))
    if dtype == F32:
        y = do.cast(y, F32)
        return do.becomes(do.rounded(y, kind, saturate=attr(node, "saturate")) if is_narrow(kind) else y)
    y = do("round", y)
    if zero is not None:
        y = do("add", y, _spread(do, do.cast(zero, wide)))
    assert dtype is not None
    limits = np.iinfo(dtype)
    return do.becomes(_stored(do, y, dtype, INTEGERS.get(kind, (limits.min, limits.max))))


def _stored(do: Steps, y: Value, dtype: np.dtype, limits: tuple[int, int]) -> Value:
    """Whole floats as numbers of an element type within limits, NaN as the least of them."""
    least, most = (do.number(n, y) for n in limits)
    held = do("clip", do.where(do("is_nan", y), least, y), least, most)
    return do.cast(do.cast(held, I32), dtype)


def _spread(do: Steps, parameter: Value) -> Value:
    """A scale or zero point that broadcasts against x: of the tensor, along an axis, or of blocks along it."""
    dims, block = do.node.x.type.dims, attr(do.node, "block_size")
    if parameter.type.size == 1 and not block:
        return do.shape(parameter)
    axis = attr(do.node, "axis") % len(dims)
    if not block:
        return do.shape(parameter, *(n if a == axis else 1 for a, n in enumerate(dims)))
    return do("gather", parameter, do.ints(*(np.arange(dims[axis]) // block)), axis=axis)


@rule("rare", "dequantize_linear")
def dequantized(state: Sweep, node: Node) -> bool:
    """Given ``y = dequantize_linear(x, s, z)``; result ``(x - z) * s``."""
    do, x, scale, zero = Steps(state, node), node.x, node.inputs[1], operand(node, 2)
    if scale is None or not known(x, scale, zero) or not known(scale, dtypes=(np.float16, F32, F64)):
        return False
    exact = x.type.dtype in SMALL or x.type.dtype is not None and x.type.dtype.kind == "f"
    wide = wider(scale.type.dtype)
    y = do.cast(x, F32 if exact else I64)
    if zero is not None:
        y = do("sub", y, _spread(do, do.cast(zero, y.type.dtype)))
    y = do("mul", do.cast(y, wide), _spread(do, do.cast(scale, wide)))
    return do.becomes(do.cast(y, node.out.type.dtype))


@rule("rare", "matmul_integer")
def matmul_integer(state: Sweep, node: Node) -> bool:
    """Given ``y = matmul_integer(a, b, za, zb)``; result ``matmul(a - za, b - zb)``."""
    do, (a, b, a_zero, b_zero) = Steps(state, node), (operand(node, i) for i in range(4))
    if a is None or b is None or not known(a, b, a_zero, b_zero) or not known(a, b, dtypes=SMALL):
        return False
    if min(len(a.type.dims), len(b.type.dims)) < 2:
        return False
    return do.becomes(do.cast(_product(do, a, a_zero, b, b_zero), node.out.type.dtype))


@rule("rare", "qlinear_matmul")
def qlinear_matmul(state: Sweep, node: Node) -> bool:
    """Given ``y = qlinear_matmul(a, sa, za, b, sb, zb, sy, zy)``; result ``round(matmul(a - za, b - zb) * (sa * sb /
    sy)) + zy``, clipped.
    """
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    if not known(*node.inputs) or not known(a, b, y_zero, dtypes=SMALL):
        return False
    assert a and a_scale and a_zero and b and b_scale and b_zero and y_scale and y_zero
    if min(len(a.type.dims), len(b.type.dims)) < 2:
        return False
    do = Steps(state, node)
    sums = do.cast(_product(do, a, a_zero, b, b_zero), F64)
    return do.becomes(_requantized(do, sums, _rows(do, a_scale), b_scale, y_scale, y_zero))


def _requantized(do: Steps, sums: Value, a: Value, b: Value, y: Value, zero: Value) -> Value:
    """f64 sums times a * b / y as numbers of the element type of `zero`."""
    scale = do("div", do("mul", do.cast(a, F32), do.cast(b, F32)), do.cast(y, F32))
    scale = do("min", scale, MOST)
    whole = do("add", do("round", do("mul", sums, do.cast(scale, F64))), do.cast(zero, F64))
    assert zero.type.dtype is not None
    limits = np.iinfo(zero.type.dtype)
    return _stored(do, whole, zero.type.dtype, (limits.min, limits.max))


def _rows(do: Steps, x: Value) -> Value:
    """A parameter of the rows of the first factor."""
    return do.shape(x, x.type.size, 1) if len(x.type.dims) == 1 and x.type.size > 1 else x


def _product(do: Steps, a: Value, a_zero: Value | None, b: Value, b_zero: Value | None) -> Value:
    """(a - its zero) @ (b - its zero) in whole numbers, of f32 where that rounds none."""
    depth = a.type.dims[-1]
    bytes_ = a.type.itemsize == b.type.itemsize == 1
    kind = F32 if bytes_ and depth <= SUMMED else I32 if bytes_ and depth < 1 << 15 else I64
    a, b = do.cast(a, kind), do.cast(b, kind)
    if a_zero is not None:
        a = do("sub", a, do.cast(_rows(do, a_zero), kind))
    if b_zero is not None:
        b = do("sub", b, do.cast(b_zero, kind))
    return do("matmul", a, b)


@rule("rare", "conv_integer")
def conv_integer(state: Sweep, node: Node) -> bool:
    """Given ``y = conv_integer(x, w, zx, zw)``; result ``conv(x - zx, w - zw)``."""
    x, w, x_zero, w_zero = (operand(node, i) for i in range(4))
    y = _window(Steps(state, node), x, x_zero, w, w_zero)
    if y is None:
        return False
    do = Steps(state, node)
    return do.becomes(do.cast(y if y.type.dtype == F32 else do.cast(y, I64), node.out.type.dtype))


@rule("rare", "qlinear_conv")
def qlinear_conv(state: Sweep, node: Node) -> bool:
    """Given ``y = qlinear_conv(x, sx, zx, w, sw, zw, sy, zy, b)``; result ``round((conv(x - zx, w - zw) + b) * (sx *
    sw / sy)) + zy``, clipped.
    """
    do, (x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b) = Steps(state, node), (*node.inputs, None)[:9]
    if not known(*node.inputs) or not known(y_zero, dtypes=SMALL) or not (x_scale and w_scale and y_scale and y_zero):
        return False
    sums = _window(do, x, x_zero, w, w_zero)
    if sums is None:
        return False
    sums = do.cast(sums, F64)
    sums = sums if b is None else do("add", sums, do.cast(b, F64))
    return do.becomes(
        _requantized(do, sums, *(do.shape(v) if v.type.size == 1 else v for v in (x_scale, w_scale, y_scale, y_zero)))
    )


def _window(do: Steps, x: Value | None, x_zero: Value | None, w: Value | None, w_zero: Value | None) -> Value | None:
    """conv(x - its zero, w - its zeros) of bytes, in f32 where that rounds none."""
    if x is None or w is None or not known(x, w, x_zero, w_zero) or not known(x, w, dtypes=SMALL[::2]):
        return None
    kind = F32 if prod(w.type.dims[1:]) <= SUMMED else F64
    if w_zero is not None and w_zero.type.size > 1:
        w_zero = do.shape(w_zero, w_zero.type.size, *(1 for _ in w.type.dims[1:]))
    return do("conv", _centered(do, x, x_zero, kind), _centered(do, w, w_zero, kind), **do.node.attrs)


def _centered(do: Steps, x: Value, zero: Value | None, kind: np.dtype) -> Value:
    x = do.cast(x, kind)
    return x if zero is None else do("sub", x, do.cast(do.shape(zero) if zero.type.size == 1 else zero, kind))
