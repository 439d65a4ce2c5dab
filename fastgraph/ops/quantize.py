"""Quantized arithmetic: real = (stored - zero point) * scale. Semantics: ONNX.

Rounding is half to even, results saturate. qlinear_conv is channels last, like conv. Of fake_quant: tflite/kernels/
{fake_quant, numeric_verify}.cc.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import FLOAT32, UINT8, Node, TensorType
from . import check
from .conv import WINDOW, conv_shape, need_zeros
from .inference import Types, axis_of, product, same_type
from .matmul import check_zero, matmul_shape
from .narrow import is_narrow, rounded, saturated_to
from .registry import REQUIRED, Layout, attr, define, fail
from .work import products, window


def saturated(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """x rounded half to even and held within an integer type, NaN as the least (float types: just converted)."""
    if dtype.kind == "f":
        return x.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.where(np.isnan(x), limits.min, np.rint(x)), limits.min, limits.max).astype(dtype)


def spread(node: Node, parameter: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A scale or zero point as an array that broadcasts against x: per tensor, per axis, or per block."""
    if parameter.size == 1 and not attr(node, "block_size"):
        return parameter.reshape(())
    axis = axis_of(node, attr(node, "axis"), x.ndim)
    if attr(node, "block_size"):
        return np.take(parameter, np.arange(x.shape[axis]) // attr(node, "block_size"), axis)
    return parameter.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def _stored_dtype(node: Node, zero: TensorType | None) -> np.dtype | None:
    if zero is not None:
        return zero.dtype
    return np.dtype(attr(node, "output_dtype") or UINT8)


def _quantize(node: Node, inputs: list[Any]) -> list[Any]:
    x, scale, zero = inputs
    dtype = _stored_dtype(node, None if zero is None else TensorType.of(zero))
    assert dtype is not None
    wide = np.promote_types(attr(node, "precision") or scale.dtype, np.float32)
    with np.errstate(all="ignore"):
        y = x.astype(wide) / spread(node, scale, x).astype(wide)
    kind = attr(node, "format")
    if dtype.kind == "f":
        return [rounded(y, dtype, kind, bool(attr(node, "saturate"))) if is_narrow(kind) else y.astype(dtype)]
    y = np.rint(y) if zero is None else np.rint(y) + spread(node, zero, x).astype(wide)
    return [saturated(saturated_to(y, kind) if is_narrow(kind) else y, dtype)]


def _dequantize(node: Node, inputs: list[Any]) -> list[Any]:
    x, scale, zero = inputs
    dtype = np.dtype(attr(node, "output_dtype") or scale.dtype)
    wide = x.astype(np.float32 if x.dtype.kind == "f" else np.int64)
    wide = wide if zero is None else wide - spread(node, zero, x).astype(wide.dtype)
    factor = spread(node, scale, x)
    return [(wide.astype(np.promote_types(factor.dtype, np.float32)) * factor).astype(dtype)]


@check.takes("x f")
def _infer_dynamic(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(UINT8, types[0].shape), TensorType(FLOAT32, ()), TensorType(UINT8, ())]


@check.takes(
    "x iu, x_scale f one, x_zero_point one, w iu, w_scale f, w_zero_point, y_scale f one, y_zero_point iu one, bias? iu"
)
def _infer_qlinear_conv(node: Node, types: Types) -> list[TensorType]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b = types
    check.one_dtype(node, [x_scale, w_scale, y_scale])
    rows = w.shape[0] if w.shape else None
    need_zeros(node, x, x_zero, "x_zero_point", None)
    need_zeros(node, w, w_zero, "w_zero_point", rows)
    if w_scale.shape not in ((), (1,), None):
        check.shape(node, w_scale, "w_scale", rows)
    return [TensorType(y_zero.dtype, conv_shape(node, x, w, b))]


@check.takes("a iu, a_scale f, a_zero_point, b iu, b_scale f, b_zero_point, y_scale f, y_zero_point iu")
def _infer_qlinear_matmul(node: Node, types: Types) -> list[TensorType]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = types
    check.one_dtype(node, [a_scale, b_scale, y_scale])
    check_zero(node, a, a_zero, "a_zero_point", -2)
    check_zero(node, b, b_zero, "b_zero_point", -1)
    check_zero(node, TensorType(None, a.shape), TensorType(None, a_scale.shape), "a_scale", -2)
    check_zero(node, TensorType(None, b.shape), TensorType(None, b_scale.shape), "b_scale", -1)
    shape = matmul_shape(node, a.shape, b.shape)
    for t, what in ((y_scale, "y_scale"), (y_zero, "y_zero_point")):
        check_zero(node, TensorType(None, shape), TensorType(None, t.shape), what, -2)
    return [TensorType(y_zero.dtype, shape)]


@check.takes("x iuf, scale f, zero_point? iuf")
def _check_block(node: Node, types: Types) -> list[TensorType]:
    x, scale, zero = types
    check.at_least(node, "block_size", attr(node, "block_size"), 0)
    if zero is not None and scale.shape is not None and not (product(scale.shape) == product(zero.shape or ()) == 1):
        check.shape(node, zero, "zero_point", *scale.shape)
    if node.op == "dequantize_linear":
        check.one_dtype(node, [x, zero])
    elif zero is not None and attr(node, "output_dtype") not in (None, zero.dtype):
        fail(node, f"output_dtype {attr(node, 'output_dtype')} is not that of the zero point, {zero.dtype}")
    _check_spread(node, x, scale)
    quantizes = node.op == "quantize_linear"
    return [TensorType(_stored_dtype(node, zero) if quantizes else attr(node, "output_dtype") or scale.dtype, x.shape)]


def _check_spread(node: Node, x: TensorType, scale: TensorType) -> None:
    """ModelError unless there is one scale, or one for each place along the axis, or each block of places."""
    block = attr(node, "block_size")
    if scale.shape is None or (scale.shape in ((), (1,)) and not block) or x.shape is None:
        return
    axis = axis_of(node, attr(node, "axis"), len(x.shape))
    extent = x.shape[axis]
    if not block:
        check.shape(node, scale, "scale", extent)
        return
    parts = -(-extent // block) if isinstance(extent, int) else None
    check.shape(node, scale, "scale", *x.shape[:axis], parts, *x.shape[axis + 1 :])


_LINEAR = {"axis": 1, "block_size": 0, "output_dtype": None}
define("quantize_linear", _check_block, _quantize, attrs={**_LINEAR, "saturate": 1, "precision": None, "format": ""})
define("dequantize_linear", _check_block, _dequantize, attrs=_LINEAR)
define("dynamic_quantize_linear", _infer_dynamic)
define("qlinear_conv", _infer_qlinear_conv, attrs=WINDOW, weights=3, bias=8, layout=Layout.WINDOW, work=window(3))
define("qlinear_matmul", _infer_qlinear_matmul, weights=3, work=products(0, 3))


def nudged(node: Node) -> tuple[np.float32, np.float32, np.float32]:
    """(least, greatest, step) of the representable numbers, shifted so that 0 is one of them."""
    low, high, bits = np.float32(attr(node, "min")), np.float32(attr(node, "max")), attr(node, "num_bits")
    first, last = np.float32(1 if attr(node, "narrow_range") else 0), np.float32((1 << bits) - 1)
    step = (high - low) / (last - first)
    zero = np.clip(np.floor(first - low / step + np.float32(0.5)), first, last)
    return (first - zero) * step, (last - zero) * step, step


def _infer(node: Node, types: Types) -> list[TensorType]:
    if not 2 <= attr(node, "num_bits") <= 16 or not attr(node, "min") < attr(node, "max"):
        found = f"{attr(node, 'num_bits')}, {attr(node, 'min')} and {attr(node, 'max')}"
        fail(node, f"num_bits must be from 2 to 16 and min below max, found {found}")
    return same_type(node, types)


define("fake_quant", _infer, inputs=(1, 1), attrs={"min": REQUIRED, "max": REQUIRED, "num_bits": 8, "narrow_range": 0})
