"""Helpers of the rules of all formats: constants and axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import FLOAT32, Value
from .call import Call

FARTHEST = int(np.iinfo(np.int64).max)
"""An end that no axis reaches, a number of rounds that no loop ends by."""


def ints(c: Call, numbers: Sequence[int] | np.ndarray) -> Value:
    """A constant vector of int64."""
    return c.const(np.array(numbers, np.int64).reshape(-1))


def scalar(c: Call, number: float, like: Value) -> Value:
    """A constant of rank 0 in the element type that `like` has, or stands for."""
    dtype = FLOAT32 if like.type.quant is not None or like.type.dtype is None else like.type.dtype
    return c.const(np.asarray(number).astype(dtype))


def axis_in(c: Call, axis: int, rank: int) -> int:
    """A possibly negative axis as a number from 0. ModelError when there is no such axis."""
    if not -rank <= axis < rank:
        c.fail(f"expected an axis of a tensor of rank {rank}, found axis {axis}")
    return int(axis) % rank


def extents(c: Call, x: Value) -> Value:
    """The shape of a value as int64: a constant where all of it is known, else computed."""
    shape = x.type.shape
    if shape is not None and all(isinstance(d, int) for d in shape):
        return ints(c, shape)  # type: ignore[arg-type]
    return c.add("shape", [x])


def floor_div(c: Call, x: Value, y: Value) -> Value:
    if x.type.quant is None and x.type.dtype is not None and x.type.dtype.kind in "iu":
        return c("floor_div", x, y)
    return c.floor(x / y)


def band(c: Call, x: Value, lower: int, upper: int) -> Value:
    """Zero further than `lower` below and `upper` above the diagonal; a negative number keeps all."""
    if lower >= 0:
        x = c("trilu", x, c.number(-lower, None), upper=1)
    return x if upper < 0 else c("trilu", x, c.number(upper, None), upper=0)
