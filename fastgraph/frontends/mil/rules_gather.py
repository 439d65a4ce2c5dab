"""Reading and writing at indices. Semantics: .../ops/defs/{iOS15, iOS16, iOS17}/scatter_gather.py.

Negative indices count from the end, as they do up to iOS16; from iOS17 on they mean nothing without
`validate_indices`, with which they are refused. Other indices out of range are errors at run time, asked for or not.
"""

from __future__ import annotations

import numpy as np

from ...ir import Value
from ..core.common import axis_in, ints
from .call import Call, rule
from .common import reals

MODES = {"update": "none", "add": "add", "sub": "add", "mul": "mul", "div": "div", "max": "max", "min": "min"}


def _x(c: Call, key: str) -> Value:
    """What is read; weights that are stored as integers as the numbers that they stand for, once."""
    value = c.x(key)
    return c.const(reals(c, value)) if value.type.quant is not None and value.data is not None else value


def _indices(c: Call, x: Value, axis: int | None = None, batch_dims: int = 0) -> Value:
    """The indices, checked at run time where that is asked for."""
    value = c.x("indices")
    dtype = value.type.dtype
    if dtype is None or dtype.kind not in "iu":
        c.fail(f"expected whole numbers as 'indices', found {value.type}")
    value = value if dtype in (np.int32, np.int64) else c.int64(value)
    if not c.known("validate_indices", False):
        return value
    return c.add("checked_indices", [value, x], axis=axis, batch_dims=batch_dims)


@rule("gather")
def _gather(c: Call) -> None:
    """Places along `axis`; the first `batch_dims` axes of both go together."""
    x, batch = _x(c, "x"), int(c.known("batch_dims", 0))
    axis = axis_in(c, c.known("axis", 0), c.rank(x))
    indices = _indices(c, x, axis)
    if not batch:
        c.finish("gather", [x, indices], axis=axis)
        return
    if not 0 < batch <= min(axis, c.rank(indices)):
        c.fail(f"expected batch_dims from 0 to the axis {axis} and the rank of the indices, found {batch}")
    c.finish("gather_batches", [x, indices], axis=axis, batch_dims=batch)


@rule("gather_along_axis")
def _gather_along(c: Call) -> None:
    x = _x(c, "x")
    axis = axis_in(c, c.known("axis", 0), c.rank(x))
    c.finish("gather_elements", [x, _indices(c, x, axis)], axis=axis)


@rule("gather_nd")
def _gather_nd(c: Call) -> None:
    x, batch = _x(c, "x"), int(c.known("batch_dims", 0))
    c.finish("gather_nd", [x, _indices(c, x, batch_dims=batch)], batch_dims=batch)


def _updates(c: Call) -> tuple[Value, str]:
    """(what is written, how it meets what is there)."""
    mode, updates = c.text("mode", *MODES, default="add"), _x(c, "updates")
    return c.add("neg", [updates]) if mode == "sub" else updates, MODES[mode]


@rule("scatter")
def _scatter(c: Call) -> None:
    """Slices across `axis`, at a vector of places."""
    data = _x(c, "data")
    rank = c.rank(data)
    axis = axis_in(c, c.known("axis", 0), rank)
    (updates, reduction), indices = _updates(c), _indices(c, data, axis)
    if c.rank(indices) > 1:
        c.fail(f"expected a vector of indices, found {indices.type}")
    places = c.add("reshape", [indices, ints(c, [-1, 1])])
    there, back = (axis, *(i for i in range(rank) if i != axis)), (*range(1, axis + 1), 0, *range(axis + 1, rank))
    if axis:
        data, updates = (c.add("transpose", [v], perm=there) for v in (data, updates))
    found = c.add("scatter_nd", [data, places, updates], reduction=reduction)
    c.give(c.add("transpose", [found], perm=back) if axis else found)


@rule("scatter_along_axis")
def _scatter_along(c: Call) -> None:
    data = _x(c, "data")
    axis = axis_in(c, c.known("axis", 0), c.rank(data))
    updates, reduction = _updates(c)
    c.finish("scatter_elements", [data, _indices(c, data, axis), updates], axis=axis, reduction=reduction)


@rule("scatter_nd")
def _scatter_nd(c: Call) -> None:
    data = _x(c, "data")
    updates, reduction = _updates(c)
    c.finish("scatter_nd", [data, _indices(c, data), updates], reduction=reduction)
