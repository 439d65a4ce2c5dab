"""Helpers of rules: operands, and checks of their types."""

from __future__ import annotations

import numpy as np

from ...ir import INT64, TensorType, Value
from .call import Call


def whole(c: Call, index: int, *others: str) -> Value:
    """Input `index`, which must hold plain int32 or int64 numbers, or some of `others`."""
    value, types = c.x(index), (*others, "int32", "int64")
    if value.type.quant is not None or str(value.type.dtype) not in types:
        c.fail(f"expected {' or '.join(types)} numbers as input {index}, found {value.type}")
    return value


def known(c: Call, index: int) -> list[int]:
    """The whole numbers of input `index`; UnsupportedError when they are not constant."""
    value = whole(c, index)
    if value.data is None:
        c.unsupported(f"with an input {index} that is computed; expected a constant")
    return [int(v) for v in value.data.reshape(-1)]


def vector(c: Call, index: int, *others: str) -> Value:
    """Input `index` as a vector of int64, constant where it is constant; of types that `whole` takes."""
    value = whole(c, index, *others)
    if value.data is not None:
        return c.const(np.array(value.data, INT64).reshape(-1))
    shape = value.type.shape
    if shape is None or len(shape) != 1:
        value = c("reshape", value, c.vector(-1))
    return c.cast(value, INT64)


def matched(c: Call, x: Value, out: Value, both: bool = False) -> Value:
    """x, its stored numbers read by the result's declared quantization, where just one of the two has one. both: also
    where both have one.
    """
    kinds = x.type.quant, out.type.quant
    by_channel = any(kind is not None and kind.axis is not None for kind in kinds)
    return x if by_channel or (None not in kinds and not both) else c.read_as(x, out.type.quant)


def stored(c: Call, value: Value | None) -> Value | None:
    """The plain numbers that are stored for a value."""
    return None if value is None else c.read_as(value, None)


def same_dtype(c: Call, *values: Value | None) -> None:
    """ModelError unless all are stored as one element type, and all or none of them are quantized."""
    present = [v for v in values if v is not None]
    if len({(v.type.dtype, v.type.quant is None) for v in present}) > 1:
        c.fail(f"expected operands of one element type, found {', '.join(str(v.type) for v in present)}")


def widened(c: Call, index: int) -> Value:
    """An operand of the result's element type, which may be stored in bytes beside int16."""
    value = c.x(index)
    kind, wanted = value.type, c.outputs[0].type.dtype
    if value.data is None or kind.quant is None or kind.dtype != np.int8 or wanted != np.int16:
        return value
    return c.const(value.data.astype(wanted), kind.quant)


def computed(c: Call, *values: Value | None) -> None:
    """ModelError when 8-bit or 16-bit integers that stand for reals lack their quantization."""
    for value in values:
        if value is None or value.type.quant is not None or value.type.dtype is None:
            continue
        if value.type.dtype.kind in "iu" and value.type.dtype.itemsize <= 2:
            c.fail(f"expected a scale and a zero point of {value}, found {value.type} without them")


def reals_of(value: Value) -> TensorType:
    """The type of the reals that a value stands for."""
    return TensorType(np.dtype(np.float32) if value.type.quant is not None else value.type.dtype)
