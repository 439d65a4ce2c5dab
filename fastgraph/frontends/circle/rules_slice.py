"""Slices, pads, concat, split; reading and writing at indices. Semantics: TFLite's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import INT64, Node, TensorType, Value
from ..core.common import FARTHEST, axis_in
from .call import Call
from .common import computed, matched, same_dtype, stored

NEAREST = int(np.iinfo(np.int64).min)


def slice(c: Call, x: Value, begin: Value, size: Value) -> Value:
    """A size of -1 goes to the end."""
    if begin.data is not None and size.data is not None:
        _check_slice(c, x, begin.data, size.data)
        ends = np.where(size.data == -1, FARTHEST, begin.data + np.maximum(size.data, 0))
        return c("slice", x, begin, ends)
    if size.data is not None and (size.data >= 0).all():
        axes, sizes = tuple(range(size.data.size)), tuple(size.data.reshape(-1).tolist())
        how: dict[str, Any] = {"offset_dims": axes, "collapsed_dims": (), "start_map": axes, "index_vector_dim": 0}
        return c("gather_slices", x, begin, **how, slice_sizes=sizes, checked=1)
    c.scope.cut[c.outputs[0]] = x, begin, size
    rest = c.equal(size, c.vector(-1))
    return c("slice", x, begin, c.choose(rest, c.vector(FARTHEST), begin + size))


def _check_slice(c: Call, x: Value, begin: np.ndarray, size: np.ndarray) -> None:
    shape = x.type.shape
    fits = begin.size == size.size and bool((begin >= 0).all() and (size >= -1).all())
    if fits and shape is not None:
        fits = len(shape) == begin.size and all(
            b + max(n, 0) <= d for b, n, d in zip(begin, size, shape, strict=True) if isinstance(d, int)
        )
    if not fits:
        c.fail(f"expected a part of {x.type}, found begin {begin.tolist()} and size {size.tolist()}")


def strided_slice(c: Call, x: Value, begin: Value, end: Value, steps: Value, offset: int, **masks: Any) -> Value:
    """Python's x[begin:end:step, ...]: bits of the masks say which entries are left out, new axes, single places ...

    A single place whose begin is left out is the first.
    """
    return c("strided_slice", x, begin, begin + end if offset else end, steps, **masks)


def pad(c: Call, x: Value, pads: Value, value: Value | None = None, mode: str = "constant") -> Value:
    """Paddings are a (before, after) of each axis; a pad without a value puts in what stands for 0."""
    # Of plain int8 LiteRT puts in plain zeros, whatever the result's zero point is.
    if value is None and mode == "constant" and (x.type.quant is not None or x.type.dtype != np.int8):
        x = matched(c, x, c.outputs[0], both=True)
    more = [] if value is None else [matched(c, value, x, both=True)]
    same_dtype(c, x, *more)
    return c("pad", x, _pads(c, pads), *more, mode=mode)


def _pads(c: Call, pairs: Value) -> Value:
    """All befores, then all afters."""
    if pairs.data is None:
        return c.cast(c("reshape", c.transpose(pairs, 1, 0), c.vector(-1)), INT64)
    if pairs.data.ndim != 2 or pairs.data.shape[1] != 2 or (pairs.data < 0).any():
        c.fail(f"expected paddings of shape [rank, 2] that are not negative, found {pairs.data.tolist()}")
    return c.vector(*pairs.data.T.ravel())


def concatenation(c: Call, *values: Value | None) -> Value:
    out = c.outputs[0]
    if out.type.dtype == np.int16:  # of bytes LiteRT computes with scales that are not there
        values = tuple(v if v is None else matched(c, v, out) for v in values)
    same_dtype(c, *values, out)
    if c.activation != "NONE":
        c.fail(f"expected no fused activation, found {c.activation}")
    row = _item_set(c, values)
    if row is None:
        return c("concat", *values, axis=c.options.axis)
    c.results_are = ["stored"]
    return row


def _item_set(c: Call, inputs: Sequence[Value | None]) -> Value | None:
    """Given ``concat(slice(x, 0, [i, -1...]), y, slice(x, [i + 1, 0...], -1))`` with y of one row: the stored numbers
    of x with row i anew, which has x's shape, however open those of the slices are. None of other concatenations.

    So TensorFlow's converter writes TensorListSetItem (tensorflow/compiler/mlir/lite/transforms).
    """
    if len(inputs) != 3 or c.options.axis != 0:
        return None
    y = inputs[1]
    before, after = (_cut(c, inputs[i]) for i in (0, 2))
    if before is None or after is None or y is None or before[0] is not after[0]:
        return None
    (x, begin, size), (_, next_begin, rest) = before, after
    i, following = _leading(c, size, -1), _leading(c, next_begin, 0)
    if i is None or following is None or not _all(begin, 0) or not _all(rest, -1):
        return None
    added = c.scope.maker(following)
    if added is None or added.op != "add" or not _is_next(added, i):
        return None
    row = c.cast(c("reshape", i, c.vector(1, 1), allowzero=0), INT64)
    at = c("checked_indices", row, x, type=TensorType(INT64), axis=0)
    return c("scatter_nd", stored(c, x), at, stored(c, y), reduction="none")


def _cut(c: Call, value: Value | None) -> tuple[Value, Value, Value] | None:
    """(x, begin, size) of a part that is taken at a place known at run time only."""
    return None if value is None else c.scope.cut.get(value)


def _leading(c: Call, value: Value, others: int) -> Value | None:
    """The whole number that begins a vector, all others of which are `others`; None of any other vector."""
    node = c.scope.maker(value)
    while node is not None and node.op in ("cast", "reshape"):
        node = c.scope.maker(node.x)
    if node is None or node.op != "concat" or len(node.inputs) != 2 or not _all(node.inputs[1], others):
        return None
    row = c.scope.maker(node.x)
    return row.x if row is not None and row.op == "reshape" else None


def _all(value: Value | None, number: int) -> bool:
    return value is not None and value.data is not None and bool((value.data == number).all())


def _is_next(added: Node, i: Value) -> bool:
    """Whether an addition gives i + 1."""
    for one, other in (added.inputs, added.inputs[::-1]):
        if one is i and other is not None and other.data is not None and np.size(other.data) == 1 and _all(other, 1):
            return True
    return False


def pack(c: Call, *values: Value, axis: int, count: int) -> Value:
    """Inputs of one shape, side by side along a new axis."""
    if count != len(values):
        c.fail(f"expected {count} inputs as its values_count says, found {len(values)}")
    return c("concat", *(c("unsqueeze", v, c.vector(axis)) for v in values), axis=axis)


def unpack(c: Call, x: Value, axis: int, count: int) -> None:
    if count != len(c.outputs):
        c.fail(f"expected {count} outputs as its num says, found {len(c.outputs)}")
    parts = c.several("split", count, x, c.vector(*[1] * count), axis=axis)
    for part, out in zip(parts, c.outputs, strict=True):
        c.settle(["moved"], "squeeze", [part, c.vector(axis)], [out])


def split(c: Call, axis: int, x: Value) -> None:
    """Equal parts."""
    shape, count = x.type.shape, len(c.outputs)
    if shape is not None:
        extent = shape[axis_in(c, axis, len(shape))]
        if isinstance(extent, int) and extent % count:
            c.fail(f"expected an axis that {count} parts divide, found extent {extent} on axis {axis}")
    c.write("split", [x], axis=axis)


def split_v(c: Call, x: Value, sizes: Value, axis: int) -> None:
    """One size may be -1: what the others leave."""
    if sizes.data is not None and (sizes.data == -1).any():
        shape = x.type.shape
        extent = None if shape is None else shape[axis_in(c, axis, len(shape))]
        if not isinstance(extent, int) or (sizes.data == -1).sum() > 1:
            c.unsupported(f"into sizes {sizes.data.tolist()} of an extent that is open")
        left = extent - int(sizes.data[sizes.data != -1].sum())
        sizes = c.vector(*np.where(sizes.data == -1, left, sizes.data))
    c.write("split", [x, sizes], axis=axis)


def reverse(c: Call, x: Value, axes: Value) -> Value:
    count = None if axes.type.shape is None else axes.type.shape[0]
    if not isinstance(count, int):
        c.unsupported("along axes whose number the file leaves open")
    first, last, step = (c.vector(*[n] * count) for n in (-1, NEAREST, -1))
    return c("slice", x, first, last, axes, step)


def dilate(c: Call, x: Value, dilations: list[int], between: Value) -> Value:
    zeros = (0,) * len(dilations)
    return c("interior_pad", x, between, low=zeros, high=zeros, interior=tuple(d - 1 for d in dilations))


# at indices


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
    """Updates of the same index are added; all else is 0."""
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
