"""Reading and writing at indices: gather, scatter, sparse to dense. Semantics: TFLite's kernels."""

from __future__ import annotations

from ...ir import TensorType, Value
from ..core.common import INT64, axis_in
from .call import Call
from .common import computed


def gather(c: Call, x: Value, indices: Value, axis: int, batch: int) -> Value:
    if x.type.shape is not None:
        axis = axis_in(c, axis, len(x.type.shape))
    if not batch:
        return c.pick(x, indices, axis)
    rank = c.rank(indices)
    batch = axis_in(c, batch, rank + 1) if batch < 0 else batch
    return c("gather_batches", x, indices, axis=axis, batch_dims=batch)


def embedding_lookup(c: Call, ids: Value, table: Value) -> Value:
    """The rows of a table that ids name; quantized rows may become floats."""
    if c.outputs[0].type.dtype == table.type.dtype:
        c.results_are = ["moved"]
    else:
        computed(c, table)
    return c.pick(table, ids)


def scatter_nd(c: Call, indices: Value, updates: Value, shape: Value) -> Value:
    """What falls on one place adds up; elsewhere is 0."""
    zeros = c("expand", c.number(0, updates), shape)
    return c("scatter_nd", zeros, indices, updates, reduction="add")


def sparse_to_dense(c: Call, indices: Value, shape: Value, values: Value, other: Value) -> Value:
    """Indices [n, rank], values [n] or one, what the other places hold."""
    rank = None if shape.type.shape is None else shape.type.shape[0]
    if not isinstance(rank, int):
        c.unsupported("into a shape whose number of axes the file leaves open")
    rows = c("reshape", indices, c.vector(-1, rank))
    if values.type.shape == ():
        values = c("expand", values, c("shape", rows, type=TensorType(INT64), start=0, end=1))
    return c("scatter_nd", c("expand", other, shape), rows, values, reduction="none")
