"""Helpers of rules: axes, types, numbers per channel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import Dim, Value
from ...ir.quantization import to_real
from ..core.common import axis_in
from .call import Call


def alike(c: Call, *values: Value) -> list[Value]:
    """The values in one element type: f32 where any has a floating point type, else the widest of theirs."""
    found = {v.type.dtype for v in values if v.type.dtype is not None and v.type.quant is None}
    if len(found) < 2:
        return list(values)
    floats = [d for d in found if d.kind == "f"]
    dtype = np.result_type(*(floats or found))
    return [v if v.type.quant is not None else c.cast(v, dtype) for v in values]


def axes_in(c: Call, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Possibly negative axes as numbers from 0, in their order. ModelError for one that is missing or named twice."""
    found = tuple(axis_in(c, axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        c.fail(f"expected distinct axes, found {tuple(axes)}")
    return found


def extent(c: Call, x: Value, axis: int) -> Value:
    """One extent of a value as a vector: a constant where it is known, else computed."""
    known = extents(x, axis)[0]
    return c.vector(known) if isinstance(known, int) else c("shape", x, start=axis, end=axis + 1)


def extents(x: Value, *axes: int) -> list[Dim]:
    """The extents of axes of a value, None where they are open."""
    return [None if x.type.shape is None else x.type.shape[axis] for axis in axes]


def per_channel(c: Call, key: str, x: Value) -> Value:
    """Parameter `key`, one number for each channel (axis 1) of x, shaped so that it broadcasts."""
    value, after = c.x(key), c.rank(x) - 2
    if c.rank(value) != 1:
        c.fail(f"expected its parameter {key!r} to be a vector, found {value.type}")
    if after < 0:
        c.fail(f"expected an input with channels as axis 1, found {x.type}")
    if value.data is not None:
        return c.cast(c.const(value.data.reshape(-1, *[1] * after)), x.type.dtype)
    return c.cast(c("reshape", value, c.vector(-1, *[1] * after)), x.type.dtype)


def reals(c: Call, value: Value, key: str = "") -> np.ndarray:
    """The numbers of a constant, float32 where it is quantized. ModelError for a value that a run computes."""
    if value.data is None:
        c.fail(f"expected {f'its parameter {key!r} to be' if key else 'a'} constant, found {value}, which is computed")
    if value.type.quant is None:
        return value.data
    return to_real(value.data, value.type.quant).astype(np.float32)
