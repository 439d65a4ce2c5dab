"""Element types as kernels know them."""

from __future__ import annotations

import numpy as np

from ...ir import TensorType, Value

ELEMENTS = {
    np.dtype(np.float32): "f32", np.dtype(np.int32): "i32", np.dtype(np.int16): "i16", np.dtype(np.uint16): "u16",
    np.dtype(np.int8): "s8", np.dtype(np.uint8): "u8", np.dtype(np.bool_): "bool",
}  # fmt: skip
"""What kernels call element types."""

Operand = Value | np.ndarray
"""A tensor that a kernel reads: where a value lies, or constants that the lowering makes."""


def element(value: Operand) -> str:
    """What kernels call the element type of a tensor; KeyError when they have none."""
    return ELEMENTS[dtype_of(value)]


def dtype_of(value: Operand) -> np.dtype:
    """The element type of a tensor that has one."""
    dtype = value.dtype if isinstance(value, np.ndarray) else value.type.dtype
    assert dtype is not None
    return dtype


def plain(*types: TensorType) -> bool:
    """Whether tensors of these types have elements, of types that kernels know."""
    return all(t.concrete and t.dtype in ELEMENTS and t.size for t in types)
