"""Names of element types in kernels."""

from __future__ import annotations

import numpy as np

from ...ir import TensorType, Value
from ...ir.types import BFLOAT16

_NAMES = {
    "float32": "f32",
    "int32": "i32",
    "int16": "i16",
    "uint16": "u16",
    "int8": "s8",
    "uint8": "u8",
    "bool": "bool",
}
ELEMENTS = {BFLOAT16: "bf16"} | {np.dtype(name): element for name, element in _NAMES.items()}
"""Element type -> its name in kernels."""

FLOATS = {BFLOAT16: "bf16", np.dtype(np.float16): "f16", np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}

Operand = Value | np.ndarray
"""A tensor that a kernel reads: a value, or an array that the lowering makes."""


def element(value: Operand) -> str:
    """The kernels' name of a tensor's element type; KeyError when there is none."""
    return ELEMENTS[dtype_of(value)]


def number(dtype: np.dtype) -> str:
    """The kernels' name of an element type as numbers; a bool is a byte that is 0 or 1. KeyError when there is none."""
    return f"i{8 * dtype.itemsize}" if dtype.kind in "biu" else FLOATS[dtype]


def dtype_of(value: Operand) -> np.dtype:
    """The element type of a tensor that has one."""
    return value.dtype if isinstance(value, np.ndarray) else value.type.element


def plain(*types: TensorType) -> bool:
    """Whether tensors of these types have elements, of types that kernels know."""
    return all(t.concrete and t.dtype in ELEMENTS and t.size for t in types)
