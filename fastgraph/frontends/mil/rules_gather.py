"""Reading and writing at indices. Semantics: .../ops/defs/{iOS15, iOS16, iOS17}/scatter_gather.py.

Negative indices count from the end, as they do up to iOS16; from iOS17 on they mean nothing without
`validate_indices`, with which they are refused. Other indices out of range are errors at run time, asked for or not.
"""

from __future__ import annotations

import numpy as np

from ...ir import Value
from .call import Call
from .signatures import Axis, Dense, Scatter, rule

MODES = {"update": "none", "add": "add", "sub": "add", "mul": "mul", "div": "div", "max": "max", "min": "min"}
"""What is done with updates; of "sub", with their opposite."""


def _checked(c: Call, value: Value, x: Value, axis: int | None = None, batch_dims: int = 0) -> Value:
    """Indices, checked at run time where that is asked for."""
    dtype = value.type.dtype
    if dtype is None or dtype.kind not in "iu":
        c.fail(f"expected whole numbers as 'indices', found {value.type}")
    value = value if dtype in (np.int32, np.int64) else c.int64(value)
    return (
        c("checked_indices", value, x, axis=axis, batch_dims=batch_dims)
        if c.known("validate_indices", False)
        else value
    )


@rule("gather")
def gather(c: Call, x: Dense, indices: Value, axis: Axis = 0, batch_dims: int = 0) -> Value:
    """Places along `axis`; the first `batch_dims` axes of both go together."""
    indices = _checked(c, indices, x, axis)
    if not batch_dims:
        return c.pick(x, indices, axis)
    if not 0 < batch_dims <= min(axis, c.rank(indices)):
        c.fail(f"expected batch_dims from 0 to the axis {axis} and the rank of the indices, found {batch_dims}")
    return c("gather_batches", x, indices, axis=axis, batch_dims=batch_dims)


@rule("gather_along_axis")
def gather_along_axis(c: Call, x: Dense, indices: Value, axis: Axis = 0) -> Value:
    return c("gather_elements", x, _checked(c, indices, x, axis), axis=axis)


@rule("gather_nd")
def gather_nd(c: Call, x: Dense, indices: Value, batch_dims: int = 0) -> Value:
    indices = _checked(c, indices, x, batch_dims=batch_dims)
    return c("gather_nd", x, indices, batch_dims=batch_dims)


@rule("scatter")
def scatter(c: Call, data: Dense, indices: Value, updates: Dense, axis: Axis = 0, mode: Scatter = "add") -> Value:
    """Slices across `axis`, at a vector of places."""
    indices = _checked(c, indices, data, axis)
    if c.rank(indices) > 1:
        c.fail(f"expected a vector of indices, found {indices.type}")
    first = (axis, *(i for i in range(c.rank(data)) if i != axis))
    places = c("reshape", indices, c.vector(-1, 1))
    found = c("scatter_nd", c.turn(data, *first), places, c.turn(_signed(updates, mode), *first), reduction=MODES[mode])
    return c.turn(found, *(first.index(i) for i in range(len(first))))


@rule("scatter_along_axis")
def scatter_along_axis(
    c: Call, data: Dense, indices: Value, updates: Dense, axis: Axis = 0, mode: Scatter = "add"
) -> Value:
    indices = _checked(c, indices, data, axis)
    return c("scatter_elements", data, indices, _signed(updates, mode), axis=axis, reduction=MODES[mode])


@rule("scatter_nd")
def scatter_nd(c: Call, data: Dense, indices: Value, updates: Dense, mode: Scatter = "add") -> Value:
    return c("scatter_nd", data, _checked(c, indices, data), _signed(updates, mode), reduction=MODES[mode])


def _signed(updates: Value, mode: str) -> Value:
    return -updates if mode == "sub" else updates
