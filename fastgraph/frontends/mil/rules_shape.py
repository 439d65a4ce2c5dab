"""Shapes: reshape, transpose, squeeze, joining and taking apart, blocks of pixels.

Semantics: coremltools/converters/mil/mil/ops/defs/{iOS15, iOS16, iOS17}/tensor_transformation.py, tensor_operation.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from ..core.common import axis_in, extents
from .call import Call
from .common import axes_in, extent
from .signatures import Formulas, formulas, rule

# other shapes for the same elements


@rule("reshape: x shape:Int64")
def reshape(c: Call, x: Value, shape: Value) -> Value:
    """-1 takes what is left. 0 keeps an extent: of the same axis; from iOS17 on of the one as far from the end."""
    if shape.data is None or shape.data.all():
        return c("reshape", x, shape)
    numbers = shape.data.reshape(-1).tolist()
    shift = len(numbers) - c.rank(x)
    if shift and c.version < 7:
        c.fail(f"expected a shape of {c.rank(x)} numbers, as one of them is 0, found {numbers}")
    if not shift and None in (x.type.shape[i] for i, n in enumerate(numbers) if not n):  # type: ignore[index]
        return c("reshape", x, shape, allowzero=0)
    kept = [c.vector(n or 1) if n or i < shift else extent(c, x, i - shift) for i, n in enumerate(numbers)]
    return c("reshape", x, _joined(c, kept))


def _joined(c: Call, pieces: list[Value]) -> Value:
    """Pieces of a shape one behind the other: a constant where all of them are."""
    known = [piece.data for piece in pieces if piece.data is not None]
    return c.number(np.concatenate(known)) if len(known) == len(pieces) else c("concat", *pieces, axis=0)


@rule("reshape_like: x ref_tensors* begins* ends* end_masks*")
def reshape_like(
    c: Call, x: Value, ref_tensors: list[Value], begins: list[Value], ends: list[Value], end_masks: list[Value]
) -> Value:
    """The new shape is pieces of the shapes of other tensors, one after the other."""
    given = (ref_tensors, begins, ends, end_masks)
    if len({len(values) for values in given}) != 1:
        c.fail(f"expected as many begins, ends and end_masks as ref_tensors, found {[len(v) for v in given]}")
    pieces = []
    for ref, *limits in zip(*given, strict=True):
        begin, end, to_end = (_known(c, v) for v in limits)
        pieces.append(_piece(c, ref, begin, None if to_end else end))
    return c("reshape", x, _joined(c, pieces), allowzero=1)


def _known(c: Call, value: Value) -> int:
    if value.data is None or value.data.size != 1:
        c.fail(f"expected {value} to be a constant number, found {value.type}")
    return int(value.data.reshape(()))


def _piece(c: Call, ref: Value, begin: int, end: int | None) -> Value:
    dims: Any = (ref.type.shape or ())[begin:end]
    if ref.type.shape is not None and None not in dims:
        return c.vector(*dims)
    return c("shape", ref, start=begin, end=end)


@rule("squeeze: x axes:Ints?")
def squeeze(c: Call, x: Value, axes: tuple[int, ...] | None) -> Value:
    """Without axes all of extent 1 go; an axis that is named and has another extent stays."""
    rank = c.rank(x)
    dims: Any = x.type.shape
    named = range(rank) if axes is None else axes_in(c, axes, rank)
    declared = c.outputs[0].type.shape
    gone = [a for a in named if dims[a] == 1 or (not isinstance(dims[a], int) and axes is not None)]
    if declared is None or len(declared) == rank - len(gone):
        return c("squeeze", x, c.vector(*gone))
    if axes is not None or None not in dims:
        c.unsupported(f"of axes {list(named)} of {x}, as the program leaves open which of them have one entry")
    return c("squeeze", x)


# joining, taking apart


@rule("concat: values* axis:int interleave:flag=0")
def concat(c: Call, values: list[Value], axis: int, interleave: bool) -> Value:
    """Scalars become vectors. `interleave`: the first slice of each, the second of each, and so on."""
    if c.rank(values[0]) == 0:
        values = [c("unsqueeze", v, c.vector(0)) for v in values]
    rank = c.rank(values[0])
    axis = axis_in(c, axis, rank)
    if not interleave or len(values) == 1:
        return c("concat", *values, axis=axis)
    joined = c("concat", *(c("unsqueeze", v, c.vector(axis + 1)) for v in values), axis=axis + 1)
    factors = np.array([len(values) if i == axis else 1 for i in range(rank)])
    first = extents(c, values[0])
    return c("reshape", joined, first * factors if first.data is None else first.data * factors)


@rule("stack: values* axis:int")
def stack(c: Call, values: list[Value], axis: int) -> Value:
    axis = axis_in(c, axis, c.rank(values[0]) + 1)
    return c("concat", *(c("unsqueeze", v, c.vector(axis)) for v in values), axis=axis)


@rule("split: x axis:Axis num_splits:int? split_sizes:Int64?")
def split(c: Call, x: Value, axis: int, num_splits: int | None, split_sizes: Value | None) -> list[Value]:
    """Parts of `split_sizes`, or as many equal ones as there are outputs."""
    count = len(c.outputs)
    if num_splits not in (None, count):
        c.fail(f"expected {num_splits} outputs, as its parameter 'num_splits' says, found {count}")
    whole = x.type.shape[axis]  # type: ignore[index]
    if split_sizes is None and isinstance(whole, int) and whole % count:
        c.fail(f"expected an axis of which {count} parts are equal, found extent {whole}")
    return c.several("split", count, x, *([] if split_sizes is None else [split_sizes]), axis=axis)


# blocks of rows and columns to and from the batch


def _blocks(c: Call, x: Value, block_shape: tuple[int, ...], key: str, pairs: np.ndarray) -> Value:
    if c.rank(x) != 4:
        c.fail(f"expected an input of rank 4, found {x.type}")
    if np.shape(pairs) != (2, 2) or len(block_shape) != 2:
        c.fail(f"expected its parameters 'block_shape' and {key!r} as 2 and 2 x 2 numbers")
    return c.to_first(c(c.op, c.to_last(x), c.vector(*block_shape), np.asarray(pairs, np.int64)))


FORMULAS: Formulas = {
    "space_to_batch: x block_shape:Ints paddings:Array": lambda c, x, block, pairs: _blocks(
        c, x, block, "paddings", pairs
    ),
    "batch_to_space: x block_shape:Ints crops:Array": lambda c, x, block, pairs: _blocks(c, x, block, "crops", pairs),
}
formulas(FORMULAS)
