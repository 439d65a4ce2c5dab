"""Operators between quantized values and reals. The arithmetic is in `ir/quantization.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import FLOAT32, Node, Quantization, TensorType
from .inference import Types, same_type
from .registry import Layout, Quant, define, fail


def flips(x: TensorType, out: TensorType) -> bool:
    """Whether two types store the same reals in bytes that differ by 128, one signed and the other unsigned."""
    one, other = x.quant, out.quant
    if one is None or other is None or {x.dtype, out.dtype} != {np.dtype(np.int8), np.dtype(np.uint8)}:
        return False
    shift = 128 if out.dtype == np.uint8 else -128
    return other == Quantization(one.scale, tuple(zero + shift for zero in one.zero_point), one.axis)


def real_type(type_: TensorType) -> TensorType:
    """The type of the reals that a quantized value stands for."""
    return TensorType(FLOAT32, type_.shape)


def _declared(node: Node, types: Types) -> list[TensorType]:
    dtype = node.out.type.dtype
    if dtype is None or dtype.kind not in "iuf":
        fail(node, f"the result must be of an integer or float type, found {node.out.type}")
    return [TensorType(dtype, types[0].shape)]


def _requantize(node: Node, inputs: list[Any]) -> list[Any]:
    dtype = node.out.type.element
    with np.errstate(over="ignore"):
        return [inputs[0] if node.out.type.quant is not None else inputs[0].astype(dtype)]


define("requantize", _declared, _requantize, inputs=(1, 1), layout=Layout.EACH)
define(
    "reinterpret", same_type, lambda node, inputs: [inputs[0]], inputs=(1, 1), layout=Layout.EACH, quant=Quant.STORED
)
