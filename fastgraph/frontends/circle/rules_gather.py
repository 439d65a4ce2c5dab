"""Reading and writing at indices: gather, scatter, sparse to dense. Semantics: TFLite's kernels."""

from __future__ import annotations

import numpy as np

from ...ir import TensorType
from ..core.common import INT64, axis_in, ints
from .call import Call, rule
from .common import matched, moved, on_stored, same_dtype, vector, whole

INDICES = (np.dtype(np.int16), np.dtype(np.int32), INT64)


@rule("GATHER")
def _gather(c: Call) -> None:
    c.count(2)
    x, indices, axis, batch = c.x(0), c.x(1), c.options.axis, c.options.batch_dims
    if indices.type.dtype not in INDICES or indices.type.quant is not None:
        c.fail(f"expected whole numbers as indices, found {indices.type}")
    if x.type.shape is not None:
        axis = axis_in(c, axis, len(x.type.shape))
    if not batch:
        moved(c, "gather", [x, indices], axis=axis)
        return
    rank = c.rank(indices)
    moved(c, "gather_batches", [x, indices], axis=axis, batch_dims=axis_in(c, batch, rank + 1) if batch < 0 else batch)


@rule("GATHER_ND")
def _gather_nd(c: Call) -> None:
    c.count(2)
    moved(c, "gather_nd", c.inputs, batch_dims=0)


@rule("SCATTER_ND")
def _scatter_nd(c: Call) -> None:
    """Inputs: indices, updates, shape. What falls on one place adds up; elsewhere is 0."""
    c.count(3)
    indices, updates, out = whole(c, 0), matched(c, c.x(1), c.outputs[0]), c.outputs[0]
    same_dtype(c, updates, out)
    zero = c.const(np.zeros((), out.type.dtype or np.float32))
    zeros = c.add("expand", [zero, vector(c, 2)], type=TensorType(out.type.dtype))
    on_stored(c, "scatter_nd", [zeros, indices, updates], reduction="add")


@rule("SPARSE_TO_DENSE")
def _sparse_to_dense(c: Call) -> None:
    """Inputs: indices [n, rank], shape, values [n] or one, what the other places hold."""
    c.count(4)
    values, other = (matched(c, c.x(i), c.outputs[0], both=True) for i in (2, 3))
    same_dtype(c, values, other, c.outputs[0])
    shape, indices = vector(c, 1), whole(c, 0)
    rank = None if shape.type.shape is None else shape.type.shape[0]
    if not isinstance(rank, int):
        c.unsupported("into a shape whose number of axes the file leaves open")
    rows = c.add("reshape", [indices, ints(c, [-1, rank])], type=indices.type.with_shape(None))
    if values.type.shape == ():
        count = c.add("shape", [rows], type=TensorType(INT64), start=0, end=1)
        values = c.add("expand", [values, count], type=values.type.with_shape(None))
    empty = c.add("expand", [other, shape], type=c.outputs[0].type.with_shape(None))
    c.write("scatter_nd", [empty, rows, values], reduction="none")
