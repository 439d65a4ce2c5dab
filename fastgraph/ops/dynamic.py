"""Rounding to 8 bits by the range of the values, and layers of 8-bit weights whose input is rounded so.

A layer multiplies the rounded reals. With a second result, the step, the first counts whole steps. `per`: what has a
range of its own, each "batch" (of the first axis), each "row" (of the last axis) or the "tensor". `grid`: the numbers
to round to. "symmetric": -127 .. 127 steps around 0.0; "asymmetric": 255 steps from the least number, or 0.0, to the
greatest, or 0.0; "onnx": the same, but numbers are divided by the step, rounded, and then moved by the zero point.

Semantics: LiteRT's kernels for float activations and integer weights; ONNX DynamicQuantizeLinear.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import FLOAT32, Node, TensorType
from . import check
from .conv import WINDOW, conv_shape, convolve
from .inference import Types
from .matmul import dense_shape
from .registry import LAYER, REQUIRED, Layout, attr, define, fail
from .work import products, window

PER = ("batch", "row", "tensor")
GRIDS = ("symmetric", "asymmetric", "onnx")
TINY = np.float32(1e-30)
"""The least range or step, so that all zeros stay zeros."""

ROUNDING = {"per": "batch", "grid": REQUIRED}


def dynamic_rounded(x: np.ndarray, per: str, grid: str) -> np.ndarray:
    """f32 numbers, each rounded to the nearest of the 256 (255) levels of its range; all NaN if one isn't finite."""
    whole, step = steps(x, per, grid)
    return np.asarray(whole * step, np.float32)


def steps(x: np.ndarray, per: str, grid: str) -> tuple[np.ndarray, np.ndarray]:
    """(whole numbers of steps, the step of each range); their product is `dynamic_rounded`."""
    x = x.astype(np.float32, copy=False)
    if x.size == 0:
        return x, np.ones((1,) * x.ndim, np.float32)
    axes = {"batch": tuple(range(1, x.ndim)), "row": (x.ndim - 1,), "tensor": None}[per]
    with np.errstate(all="ignore"):
        least = np.minimum(x.min(axis=axes, keepdims=True), np.float32(0))
        most = np.maximum(x.max(axis=axes, keepdims=True), np.float32(0))
        if grid == "symmetric":
            top = np.maximum(np.maximum(-least, most), TINY)
            factor, scale, zero = np.float32(127) / top, top / np.float32(127), np.float32(0)
        elif grid == "asymmetric":
            scale = np.maximum((most - least) / np.float32(255), TINY)
            factor, zero = np.float32(1) / scale, np.rint(np.float32(-128) - least / scale)
        else:
            scale = (most - least) / np.float32(255)
            scale = np.where(scale == 0, np.float32(1), scale)
            zero = np.rint(-least / scale) - np.float32(128)
        numbers = np.rint(x / scale) + zero if grid == "onnx" else np.rint(x * factor + zero)
        stored = np.clip(numbers, -128, 127)
        return (stored - zero).astype(np.float32), scale.astype(np.float32)


def _checked(node: Node, x: TensorType) -> TensorType:
    check.one_of(node, "per", attr(node, "per"), PER)
    check.one_of(node, "grid", attr(node, "grid"), GRIDS)
    if x.dtype is not None and x.dtype != FLOAT32:
        fail(node, f"expected float32, found {x}")
    if x.shape == ():
        fail(node, "expected an axis or more, found a scalar")
    return x


def _infer_round(node: Node, types: Types) -> list[TensorType]:
    if len(node.outputs) > 1 and attr(node, "per") != "tensor":
        fail(node, "expected one range, and so one step, where the step is a result")
    return [TensorType(FLOAT32, _checked(node, types[0]).shape), TensorType(FLOAT32, ())][: len(node.outputs)]


def _round(node: Node, inputs: list[Any]) -> list[Any]:
    whole, step = steps(inputs[0], attr(node, "per"), attr(node, "grid"))
    return [whole, step.reshape(())] if len(node.outputs) > 1 else [np.asarray(whole * step, np.float32)]


def _infer_conv(node: Node, types: Types) -> list[TensorType]:
    x, w, b = types
    check.one_dtype(node, types)
    return [TensorType(FLOAT32, conv_shape(node, _checked(node, x), w, b))]


def _infer_dense(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(FLOAT32, dense_shape(node, _checked(node, types[0]), *types[1:]))]


def _conv(node: Node, inputs: list[Any]) -> list[Any]:
    return _layer(node, inputs, lambda x, w: convolve(node, x, w))


def _dense(node: Node, inputs: list[Any]) -> list[Any]:
    return _layer(node, inputs, lambda x, w: x @ w.T)


def _layer(node: Node, inputs: list[Any], product: Any) -> list[Any]:
    x, w, b = inputs
    y = product(dynamic_rounded(x, attr(node, "per"), attr(node, "grid")).astype(w.dtype), w)
    return [(y if b is None else y + b).astype(np.float32)]


define("dynamic_round", _infer_round, _round, inputs=(1, 1), attrs=ROUNDING, one_to_one_at=0)
define(
    "dynamic_conv", _infer_conv, _conv, inputs=(2, 3), attrs={**WINDOW, **ROUNDING},
    **LAYER, layout=Layout.WINDOW, work=window(1),
)  # fmt: skip
define(
    "dynamic_dense", _infer_dense, _dense, inputs=(2, 3), attrs={**ROUNDING, "per": "row"}, **LAYER, work=products(0, 1)
)
