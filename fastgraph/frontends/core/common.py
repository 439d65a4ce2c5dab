"""Helpers of the rules of all formats: constants, axes, conditions."""

from __future__ import annotations

import numpy as np

from ...ir import BOOL, TensorType, Value
from .call import Call

FARTHEST = int(np.iinfo(np.int64).max)
"""An end that no axis reaches, a number of rounds that no loop ends by."""


def axis_in(c: Call, axis: int, rank: int) -> int:
    """A possibly negative axis as a number from 0. ModelError when there is no such axis."""
    if not -rank <= axis < rank:
        c.fail(f"expected an axis of a tensor of rank {rank}, found axis {axis}")
    return int(axis) % rank


def extents(c: Call, x: Value) -> Value:
    """The shape of a value as int64: a constant where all of it is known, else computed."""
    shape = x.type.shape
    if shape is not None and all(isinstance(d, int) for d in shape):
        return c.vector(*shape)  # type: ignore[arg-type]
    return c.add("shape", [x])


def truth(c: Call, value: Value, known: bool = True) -> Value:
    """A condition. ModelError for one that is no bool, or whose type must be `known` and is not."""
    if value.type.dtype != BOOL and (known or value.type.dtype is not None):
        c.fail(f"expected a condition of type bool, found {value.type}")
    return value


def transposed(c: Call, w: Value, perm: tuple[int, ...]) -> Value:
    """w with its axes permuted, and its quantization along with them: at once where it is constant."""
    quant = w.type.quant
    if quant is not None and quant.axis is not None:
        quant = quant._replace(axis=perm.index(quant.axis))
    if w.data is not None:
        return c.const(w.data.transpose(perm), quant)
    return c.add("transpose", [w], type=TensorType(w.type.dtype, None, quant), perm=perm)


def floor_div(c: Call, x: Value, y: Value) -> Value:
    if x.type.quant is None and x.type.dtype is not None and x.type.dtype.kind in "iu":
        return c("floor_div", x, y)
    return c.floor(x / y)


def band(c: Call, x: Value, lower: int, upper: int) -> Value:
    """Zero further than `lower` below and `upper` above the diagonal; a negative number keeps all."""
    if lower >= 0:
        x = c("trilu", x, c.number(-lower, None), upper=1)
    return x if upper < 0 else c("trilu", x, c.number(upper, None), upper=0)
