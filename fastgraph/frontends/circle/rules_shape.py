"""Shapes: reshape, transpose, squeeze, expand, fill, range, shape, rank. Semantics: TFLite's kernels."""

from __future__ import annotations

import numpy as np

from ...ir import TensorType, Value
from ..core.common import INT64, axis_in, ints
from .call import Call, rule
from .common import (
    alike,
    as_declared,
    known,
    matched,
    moved,
    narrowed,
    on_stored,
    one_to_one,
    same_dtype,
    stored,
    vector,
    whole,
)


@rule("RESHAPE")
def _reshape(c: Call) -> None:
    """The new shape is input 1, or an option. Old files write a scalar as [0]."""
    c.count((1, 2))
    target = _new_shape(c)
    allow_zero = target.data is None or bool((target.data == 0).any())
    moved(c, "reshape", [c.x(), target], allowzero=int(allow_zero))


def _new_shape(c: Call) -> Value:
    if c.input(1) is not None:
        return vector(c, 1)
    numbers, declared = list(getattr(c.options, "new_shape", ())), c.outputs[0].type.shape
    if not numbers and declared:
        if sum(d is None for d in declared) > 1:
            c.fail("expected a new shape, as an input or an option; found none")
        numbers = [-1 if d is None else int(d) for d in declared]
    return ints(c, [] if numbers == [0] else numbers)


@rule("TRANSPOSE")
def _transpose(c: Call) -> None:
    c.count(2)
    perm = known(c, 1, "permutations")
    rank = len(perm)
    if sorted(axis_in(c, p, rank) for p in perm) != list(range(rank)):
        c.fail(f"expected a permutation of {rank} axes, found {perm}")
    moved(c, "transpose", [c.x()], perm=tuple(p % rank for p in perm))


@rule("SQUEEZE")
def _squeeze(c: Call) -> None:
    c.count(1)
    axes = list(c.options.squeeze_dims)
    moved(c, "squeeze", [c.x(), ints(c, axes)] if axes else [c.x()])


@rule("EXPAND_DIMS")
def _expand_dims(c: Call) -> None:
    c.count(2)
    moved(c, "unsqueeze", [c.x(), vector(c, 1)])


@rule("SHAPE")
def _shape(c: Call) -> None:
    c.count(1)
    as_declared(c, 0, "shape", [c.x()])


@rule("RANK")
def _rank(c: Call) -> None:
    c.count(1)
    as_declared(c, 0, "size", [c.add("shape", [c.x()], type=TensorType(INT64))])


@rule("TILE")
def _tile(c: Call) -> None:
    c.count(2)
    moved(c, "tile", [c.x(), vector(c, 1)])


@rule("BROADCAST_TO")
def _broadcast_to(c: Call) -> None:
    c.count(2)
    moved(c, "expand", [c.x(), vector(c, 1)])


@rule("BROADCAST_ARGS")
def _broadcast_args(c: Call) -> None:
    """The shape that two shapes broadcast to."""
    c.count(2)
    as_declared(c, 0, "broadcast_shapes", [vector(c, 0), vector(c, 1)])


@rule("FILL")
def _fill(c: Call) -> None:
    c.count(2)
    value = c.x(1)
    same_dtype(c, value, c.outputs[0])
    if value.type.shape != ():
        value = c.add("reshape", [value, ints(c, [])], type=value.type.with_shape(None))
    moved(c, "expand", [value, vector(c, 0)])


one_to_one({"RANGE": "range"}, 3, alike)


@rule("MATRIX_DIAG")
def _matrix_diag(c: Call) -> None:
    """Vectors along the last axis become diagonals of square matrices."""
    c.count(1)
    on_stored(c, "matrix_diag", c.inputs)


@rule("MATRIX_SET_DIAG")
def _matrix_set_diag(c: Call) -> None:
    c.count(2)
    same_dtype(c, *c.inputs)
    moved(c, "matrix_set_diag", c.inputs)


@rule("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def _blocks_and_depth(c: Call) -> None:
    c.count(1)
    if c.options.block_size < 1:
        c.fail(f"expected a block size of 1 or more, found {c.options.block_size}")
    moved(c, c.op.lower(), [c.x()], blocksize=c.options.block_size, mode="DCR")


@rule("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
def _blocks_and_batch(c: Call) -> None:
    """Inputs: x, block shape, and (before, after) of each blocked axis: zeros added, or entries cropped."""
    c.count(3)
    moved(c, "space_to_batch" if c.op == "SPACE_TO_BATCH_ND" else "batch_to_space", [c.x(), vector(c, 1), whole(c, 2)])


@rule("REVERSE_SEQUENCE")
def _reverse_sequence(c: Call) -> None:
    c.count(2)
    rank = c.rank(c.x())
    time, batch = (axis_in(c, a, rank) for a in (c.options.seq_dim, c.options.batch_dim))
    moved(c, "reverse_sequence", [c.x(), vector(c, 1)], time_axis=time, batch_axis=batch)


@rule("ONE_HOT")
def _one_hot(c: Call) -> None:
    """Indices, depth, on, off; an index that is none, negative ones too, gives off only."""
    c.count(4)
    on, off = (matched(c, c.x(i), c.outputs[0], both=True) for i in (2, 3))
    same_dtype(c, on, off, c.outputs[0])
    pair = [c.add("reshape", [v, ints(c, [1])], type=v.type.with_shape(None)) for v in (off, on)]
    values = c.add("concat", pair, type=on.type.with_shape(None), axis=0)
    c.write("one_hot", [whole(c, 0), vector(c, 1), values], axis=c.options.axis, wrap=0)


@rule("WHERE")
def _where(c: Call) -> None:
    """The places that are not zero, a row of indices each."""
    c.count(1)
    found = c.add("non_zero", [stored(c, c.x())], type=TensorType(INT64))
    as_declared(c, 0, "transpose", [found], perm=(1, 0))


@rule("UNIQUE")
def _unique(c: Call) -> None:
    """Distinct elements in order of first appearance, and for each element the place of its like."""
    c.count(1, 2)
    inverse = c.fresh(TensorType(INT64))
    c.add(
        "unique",
        [matched(c, c.x(), c.outputs[0], both=True)],
        [c.outputs[0], c.fresh(TensorType(INT64)), inverse],
        axis=None,
        sorted=0,
    )
    narrowed(c, inverse, c.outputs[1])


@rule("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def _non_max_suppression(c: Call) -> None:
    """Inputs: boxes, scores, most, overlap, least score (V5: sigma). Outputs: indices (V5: scores), count."""
    soft = c.op == "NON_MAX_SUPPRESSION_V5"
    c.count(6 if soft else 5, 3 if soft else 2)
    indices, scores = c.outputs[0], c.outputs[1] if soft else c.fresh(TensorType(np.dtype(np.float32)))
    wide = [c.fresh(TensorType(INT64)) for _ in range(2)]
    whole(c, 2)
    c.add("box_suppression", c.inputs, [wide[0], scores, wide[1]])
    narrowed(c, wide[0], indices)
    narrowed(c, wide[1], c.outputs[-1])
