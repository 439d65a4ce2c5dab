"""Element types as kernels know them."""

from __future__ import annotations

import numpy as np

from ...ir import TensorType, Value

_NAMES = {
    "float32": "f32",
    "int32": "i32",
    "int16": "i16",
    "uint16": "u16",
    "int8": "s8",
    "uint8": "u8",
    "bool": "bool",
}
ELEMENTS = {np.dtype(name): element for name, element in _NAMES.items()}
"""What kernels call element types."""

FLOATS = {np.dtype(np.float16): "f16", np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}

Operand = Value | np.ndarray
"""A tensor that a kernel reads: where a value lies, or constants that the lowering makes."""


def element(value: Operand) -> str:
    """What kernels call the element type of a tensor; KeyError when they have none."""
    return ELEMENTS[dtype_of(value)]


def number(dtype: np.dtype) -> str:
    """What kernels call the numbers of an element type; a bool is a byte that is 0 or 1. KeyError for what is none."""
    return f"i{8 * dtype.itemsize}" if dtype.kind in "biu" else FLOATS[dtype]


def dtype_of(value: Operand) -> np.dtype:
    """The element type of a tensor that has one."""
    dtype = value.dtype if isinstance(value, np.ndarray) else value.type.dtype
    assert dtype is not None
    return dtype


def plain(*types: TensorType) -> bool:
    """Whether tensors of these types have elements, of types that kernels know."""
    return all(t.concrete and t.dtype in ELEMENTS and t.size for t in types)
