"""Quantized arithmetic: real = (stored - zero point) * scale. Semantics: ONNX.

Rounding is half to even, results saturate. qlinear_conv is channels last, like conv.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from . import check
from .conv import WINDOW, conv_shape, need_zeros
from .inference import FLOAT, FLOAT32, NUMBER, WHOLE, Types, axis_of, product
from .matmul import check_zero, matmul_shape
from .narrow import is_narrow, rounded, saturated_to
from .registry import Layout, attr, define, fail
from .work import products, window

UINT8 = np.dtype(np.uint8)


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


def _infer_quantize(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(_stored_dtype(node, types[2]), types[0].shape)]


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


def _infer_dequantize(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(attr(node, "output_dtype") or types[1].dtype, types[0].shape)]


def _dequantize(node: Node, inputs: list[Any]) -> list[Any]:
    x, scale, zero = inputs
    dtype = np.dtype(attr(node, "output_dtype") or scale.dtype)
    wide = x.astype(np.float32 if x.dtype.kind == "f" else np.int64)
    wide = wide if zero is None else wide - spread(node, zero, x).astype(wide.dtype)
    factor = spread(node, scale, x)
    return [(wide.astype(np.promote_types(factor.dtype, np.float32)) * factor).astype(dtype)]


def _infer_dynamic(node: Node, types: Types) -> list[TensorType]:
    check.kind(node, types[0], FLOAT)
    return [TensorType(UINT8, types[0].shape), TensorType(FLOAT32, ()), TensorType(UINT8, ())]


def _infer_qlinear_conv(node: Node, types: Types) -> list[TensorType]:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b = types
    _check_scales(node, x_scale, w_scale, y_scale)
    for t in (x, w, y_zero, b):
        check.kind(node, t, WHOLE)
    rows = w.shape[0] if w.shape else None
    need_zeros(node, x, x_zero, "the input's zero point", None)
    need_zeros(node, w, w_zero, "the weight's zero point", rows)
    check.one(node, y_zero, "the result's zero point")
    for t, what in ((x_scale, "the input's scale"), (y_scale, "the result's scale")):
        check.one(node, t, what, FLOAT)
    if w_scale.shape not in ((), (1,), None):
        check.shape(node, w_scale, "the weight's scale", rows)
    return [TensorType(y_zero.dtype, conv_shape(node, x, w, b))]


def _check_scales(node: Node, *scales: TensorType) -> None:
    for t in scales:
        check.kind(node, t, FLOAT, "a scale")
    check.one_dtype(node, scales)


def _infer_qlinear_matmul(node: Node, types: Types) -> list[TensorType]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = types
    _check_scales(node, a_scale, b_scale, y_scale)
    for t in (a, b, y_zero):
        check.kind(node, t, WHOLE)
    check_zero(node, a, a_zero, "A's zero point", -2)
    check_zero(node, b, b_zero, "B's zero point", -1)
    check_zero(node, TensorType(None, a.shape), TensorType(None, a_scale.shape), "A's scale", -2)
    check_zero(node, TensorType(None, b.shape), TensorType(None, b_scale.shape), "B's scale", -1)
    shape = matmul_shape(node, a.shape, b.shape)
    for t, what in ((y_scale, "the result's scale"), (y_zero, "the result's zero point")):
        check_zero(node, TensorType(None, shape), TensorType(None, t.shape), what, -2)
    return [TensorType(y_zero.dtype, shape)]


def _check_block(node: Node, types: Types) -> list[TensorType]:
    x, scale, zero = types
    check.at_least(node, "block_size", attr(node, "block_size"), 0)
    check.kind(node, x, NUMBER)
    check.kind(node, scale, FLOAT, "the scale")
    check.kind(node, zero, NUMBER, "the zero point")
    if zero is not None and scale.shape is not None and not (product(scale.shape) == product(zero.shape or ()) == 1):
        check.shape(node, zero, "the zero point", *scale.shape)
    if node.op == "dequantize_linear":
        check.one_dtype(node, [x, zero])
    elif zero is not None and attr(node, "output_dtype") not in (None, zero.dtype):
        fail(node, f"output_dtype {attr(node, 'output_dtype')} is not that of the zero point, {zero.dtype}")
    _check_spread(node, x, scale)
    return (_infer_quantize if node.op == "quantize_linear" else _infer_dequantize)(node, types)


def _check_spread(node: Node, x: TensorType, scale: TensorType) -> None:
    """ModelError unless there is one scale, or one for each place along the axis, or each block of places."""
    block = attr(node, "block_size")
    if scale.shape is None or (scale.shape in ((), (1,)) and not block) or x.shape is None:
        return
    axis = axis_of(node, attr(node, "axis"), len(x.shape))
    extent = x.shape[axis]
    if not block:
        check.shape(node, scale, "the scale", extent)
        return
    parts = -(-extent // block) if isinstance(extent, int) else None
    check.shape(node, scale, "the scale", *x.shape[:axis], parts, *x.shape[axis + 1 :])


_LINEAR = {"axis": 1, "block_size": 0, "output_dtype": None}
define(
    "quantize_linear", _check_block, _quantize, inputs=(2, 3),
    attrs={**_LINEAR, "saturate": 1, "precision": None, "format": ""},
)  # fmt: skip
define("dequantize_linear", _check_block, _dequantize, inputs=(2, 3), attrs=_LINEAR)
define("dynamic_quantize_linear", _infer_dynamic, inputs=(1, 1))
define(
    "qlinear_conv", _infer_qlinear_conv, inputs=(8, 9), attrs=WINDOW,
    weights=3, bias=8, layout=Layout.WINDOW, work=window(3),
)  # fmt: skip
define("qlinear_matmul", _infer_qlinear_matmul, inputs=(8, 8), weights=3, work=products(0, 3))
