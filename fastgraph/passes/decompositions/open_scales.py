"""quantize, dequantize and integer products whose scales and zero points are computed at run time."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...ir import FLOAT32, FLOAT64, INT32, INT64, Node, Value
from ...ops.narrow import INTEGERS, is_narrow
from ...ops.registry import attr
from ...rules.operands import SUMMED, known
from ...rules.rule import rule
from ...rules.sweep import Sweep

SMALL = tuple(np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16))
"""Integer types whose numbers f32 holds exactly."""
MOST = float(np.finfo(np.float32).max)


def wider(dtype: Any) -> np.dtype:
    """The element type of floats, but for f16."""
    return FLOAT64 if dtype == FLOAT64 else FLOAT32


@rule("rare", "quantize_linear")
def quantized(g: Sweep, node: Node) -> bool:
    """Given ``y = quantize_linear(x, s, z)``; result ``cast(clip(round(x / s) + z))``, for floats ``cast(x / s)``."""
    x, scale, zero = node.x, node.inputs[1], node.input(2)
    dtype, kind = node.out.type.element, attr(node, "format")
    if scale is None or not known(x, scale, zero) or dtype not in (*SMALL, FLOAT32):
        return False
    wide = wider(attr(node, "precision") or scale.type.dtype)
    y = g.cast(x, wide) / _broadcastable(g, g.cast(scale, wide))
    if dtype == FLOAT32:
        y = g.cast(y, FLOAT32)
        told = {"saturate": attr(node, "saturate"), "round_mode": "up", "format": kind}
        return g.becomes(g("cast", y, to=FLOAT32.name, **told) if is_narrow(kind) else y)
    y = g("round", y)
    if zero is not None:
        y = y + _broadcastable(g, g.cast(zero, wide))
    limits = np.iinfo(dtype)
    return g.becomes(_stored(g, y, dtype, INTEGERS.get(kind, (limits.min, limits.max))))


def _stored(g: Sweep, y: Value, dtype: np.dtype, limits: tuple[int, int]) -> Value:
    """Whole floats clipped and cast to an integer type, NaN as the least number."""
    least, most = (g.number(n, y) for n in limits)
    held = g.clip(g.choose(g("is_nan", y), least, y), least, most)
    return g.cast(g.cast(held, INT32), dtype)


def _broadcastable(g: Sweep, parameter: Value) -> Value:
    """A scale or zero point that broadcasts against x: of the tensor, along an axis, or of blocks along it."""
    dims, block = g.node.x.type.dims, attr(g.node, "block_size")
    if parameter.type.size == 1 and not block:
        return g.shape(parameter)
    axis = attr(g.node, "axis") % len(dims)
    if not block:
        return g.shape(parameter, *(n if a == axis else 1 for a, n in enumerate(dims)))
    return g.pick(parameter, np.arange(dims[axis]) // block, axis)


@rule("rare", "dequantize_linear")
def dequantized(g: Sweep, node: Node) -> bool:
    """Given ``y = dequantize_linear(x, s, z)``; result ``(x - z) * s``."""
    x, scale, zero = node.x, node.inputs[1], node.input(2)
    if scale is None or not known(x, scale, zero) or not known(scale, dtypes=(np.float16, FLOAT32, FLOAT64)):
        return False
    exact = x.type.dtype in SMALL or x.type.dtype is not None and x.type.dtype.kind == "f"
    wide = wider(scale.type.dtype)
    y = g.cast(x, FLOAT32 if exact else INT64)
    if zero is not None:
        y = y - _broadcastable(g, g.cast(zero, y.type.dtype))
    return g.becomes(g.cast(g.cast(y, wide) * _broadcastable(g, g.cast(scale, wide)), node.out.type.dtype))


@rule("rare", "matmul_integer")
def matmul_integer(g: Sweep, node: Node) -> bool:
    """Given ``y = matmul_integer(a, b, za, zb)``; result ``matmul(a - za, b - zb)``."""
    a, b, a_zero, b_zero = (node.input(i) for i in range(4))
    if a is None or b is None or not known(a, b, a_zero, b_zero) or not known(a, b, dtypes=SMALL):
        return False
    return g.becomes(g.cast(_product(g, a, a_zero, b, b_zero), node.out.type.dtype))


@rule("rare", "qlinear_matmul")
def qlinear_matmul(g: Sweep, node: Node) -> bool:
    """Given ``y = qlinear_matmul(a, sa, za, b, sb, zb, sy, zy)``; result ``round(matmul(a - za, b - zb) * (sa * sb /
    sy)) + zy``, clipped.
    """
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    if not known(*node.inputs) or not known(a, b, y_zero, dtypes=SMALL):
        return False
    assert a and a_scale and a_zero and b and b_scale and b_zero and y_scale and y_zero
    sums = g.cast(_product(g, a, a_zero, b, b_zero), FLOAT64)
    return g.becomes(_requantized(g, sums, _rows(g, a_scale), b_scale, y_scale, y_zero))


def _requantized(g: Sweep, sums: Value, a: Value, b: Value, y: Value, zero: Value) -> Value:
    """f64 sums times a * b / y as numbers of the element type of `zero`."""
    scale = g.min(g.cast(a, FLOAT32) * g.cast(b, FLOAT32) / g.cast(y, FLOAT32), MOST)
    whole = g("round", sums * g.cast(scale, FLOAT64)) + g.cast(zero, FLOAT64)
    limits = np.iinfo(zero.type.element)
    return _stored(g, whole, zero.type.element, (limits.min, limits.max))


def _rows(g: Sweep, x: Value) -> Value:
    """A parameter for each row of the first factor."""
    return g.shape(x, x.type.size, 1) if len(x.type.dims) == 1 and x.type.size > 1 else x


def _product(g: Sweep, a: Value, a_zero: Value | None, b: Value, b_zero: Value | None) -> Value:
    """(a - za) @ (b - zb) in whole numbers; in f32 where it holds all sums."""
    depth = a.type.dims[-1]
    bytes_ = a.type.itemsize == b.type.itemsize == 1
    kind = FLOAT32 if bytes_ and depth <= SUMMED else INT32 if bytes_ and depth < 1 << 15 else INT64
    a, b = g.cast(a, kind), g.cast(b, kind)
    if a_zero is not None:
        a = a - g.cast(_rows(g, a_zero), kind)
    if b_zero is not None:
        b = b - g.cast(b_zero, kind)
    return a @ b


@rule("rare", "conv_integer")
def conv_integer(g: Sweep, node: Node) -> bool:
    """Given ``y = conv_integer(x, w, zx, zw)``; result ``conv(x - zx, w - zw)``."""
    x, w, x_zero, w_zero = (node.input(i) for i in range(4))
    y = _window(g, x, x_zero, w, w_zero)
    if y is None:
        return False
    return g.becomes(g.cast(y if y.type.dtype == FLOAT32 else g.cast(y, INT64), node.out.type.dtype))


@rule("rare", "qlinear_conv")
def qlinear_conv(g: Sweep, node: Node) -> bool:
    """Given ``y = qlinear_conv(x, sx, zx, w, sw, zw, sy, zy, b)``; result ``round((conv(x - zx, w - zw) + b) * (sx *
    sw / sy)) + zy``, clipped.
    """
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b = (node.input(i) for i in range(9))
    if not known(*node.inputs) or not known(y_zero, dtypes=SMALL) or not (x_scale and w_scale and y_scale and y_zero):
        return False
    sums = _window(g, x, x_zero, w, w_zero)
    if sums is None:
        return False
    sums = g.cast(sums, FLOAT64)
    sums = sums if b is None else sums + g.cast(b, FLOAT64)
    parameters = (g.shape(v) if v.type.size == 1 else v for v in (x_scale, w_scale, y_scale, y_zero))
    return g.becomes(_requantized(g, sums, *parameters))


def _window(g: Sweep, x: Value | None, x_zero: Value | None, w: Value | None, w_zero: Value | None) -> Value | None:
    """conv(x - zx, w - zw) of bytes; in f32 where it holds all sums."""
    if x is None or w is None or not known(x, w, x_zero, w_zero) or not known(x, w, dtypes=SMALL[::2]):
        return None
    kind = FLOAT32 if prod(w.type.dims[1:]) <= SUMMED else FLOAT64
    if w_zero is not None and w_zero.type.size > 1:
        w_zero = g.shape(w_zero, w_zero.type.size, *(1 for _ in w.type.dims[1:]))
    return g("conv", _centered(g, x, x_zero, kind), _centered(g, w, w_zero, kind), **g.node.attrs)


def _centered(g: Sweep, x: Value, zero: Value | None, kind: np.dtype) -> Value:
    x = g.cast(x, kind)
    return x if zero is None else x - g.cast(g.shape(zero) if zero.type.size == 1 else zero, kind)
