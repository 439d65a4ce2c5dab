"""Slices at computed offsets, moves of blocks between batch and space, diagonals. Semantics: TensorFlow."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..ir import INT64, Dim, Node, Shape, TensorType
from . import check
from .inference import Types, axis_of, ints, length, same_type, shown
from .registry import REQUIRED, attr, define, fail

MASKS = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}


def index_of(node: Node, begin: list[int], end: list[int], steps: list[int]) -> tuple[Any, ...]:
    """The NumPy index that begin, end and strides of a strided_slice, with its masks, stand for."""
    if not len(begin) == len(end) == len(steps) or 0 in steps:
        fail(node, f"needs as many begins, ends and steps other than 0, found {begin}, {end}, {steps}")
    if len(begin) > 64:
        fail(node, f"has entries for {len(begin)} axes, and 64 are the most")
    index: list[Any] = []
    for i, (first, last, step) in enumerate(zip(begin, end, steps, strict=True)):
        named = {name for name in MASKS if attr(node, name) >> i & 1}
        if "ellipsis_mask" in named:
            index.append(Ellipsis)
        elif "new_axis_mask" in named:
            index.append(None)
        elif "shrink_axis_mask" in named:
            index.append(0 if "begin_mask" in named else first)
        else:
            index.append(slice(None if "begin_mask" in named else first, None if "end_mask" in named else last, step))
    return tuple(index)


@check.takes("x, begin iu 1, end iu 1, strides iu 1")
def _infer_strided_slice(node: Node, types: Types) -> list[TensorType]:
    x, parts = types[0], [node.const(i) for i in (1, 2, 3)]
    if any(p is None for p in parts):
        return [TensorType(x.dtype, _sliced_rank(node, x, length(types[1])))]
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    index = index_of(node, *(ints(p) for p in parts))
    return [TensorType(x.dtype, tuple(_taken(index, x.shape)))]


def _taken(index: tuple[Any, ...], shape: Shape) -> list[Dim]:
    """The shape of x[index], as of NumPy; an open extent gives an open one, unless all of it is taken."""
    axes = sum(entry is not None and entry is not Ellipsis for entry in index)
    if axes > len(shape) or index.count(Ellipsis) > 1:
        raise IndexError("too many indices")
    at = index.index(Ellipsis) if Ellipsis in index else len(index)
    entries = [*index[:at], *[slice(None)] * (len(shape) - axes), *index[at + 1 :]]
    extents, taken = iter(shape), list[Dim]()
    for entry in entries:
        extent = 1 if entry is None else next(extents)
        cut = slice(None) if entry is None else entry
        if isinstance(extent, int):
            places = range(extent)[cut]
            taken += [len(places)] if isinstance(places, range) else []
        elif isinstance(cut, slice):
            taken.append(extent if _whole(cut) else None)
    return taken


def _whole(cut: slice) -> bool:
    stop = cut.stop
    return cut.start in (None, 0) and (stop is None or stop >= 2**31 - 1) and cut.step in (None, 1)


def _sliced_rank(node: Node, x: TensorType, count: int | None) -> tuple[Dim, ...] | None:
    if x.shape is None or count is None:
        return None
    ellipsis = attr(node, "ellipsis_mask")
    new = attr(node, "new_axis_mask") & ~ellipsis & ((1 << count) - 1)
    gone = attr(node, "shrink_axis_mask") & ~ellipsis & ~new & ((1 << count) - 1)
    return (None,) * (len(x.shape) + new.bit_count() - gone.bit_count())


def _strided_slice(node: Node, inputs: list[Any]) -> list[Any]:
    x, *parts = inputs
    return [np.asarray(x[index_of(node, *map(ints, parts))], order="C")]


@check.takes("x, update, begin iu 1, end iu 1, strides iu 1")
def _infer_slice_update(node: Node, types: Types) -> list[TensorType]:
    check.one_dtype(node, types[:2])
    return same_type(node, types)


def _slice_update(node: Node, inputs: list[Any]) -> list[Any]:
    """x with `update` written over the elements that strided_slice reads; axes of extent 1 may be missing or extra."""
    x, update, *parts = inputs
    index = index_of(node, *map(ints, parts))
    y = x.copy()
    if [d for d in update.shape if d != 1] != [d for d in y[index].shape if d != 1]:
        fail(node, f"an update {shown(update.shape)} does not fit the slice {shown(y[index].shape)}")
    y[index] = update.reshape(y[index].shape)
    return [y]


@check.takes("x, update, start iu 1")
def _infer_dynamic_update(node: Node, types: Types) -> list[TensorType]:
    x, update, start = types
    check.one_dtype(node, [x, update])
    if x.shape is not None and update.shape is not None:
        check.operand(node, update, f"update {len(x.shape)}")
        check.shape(node, start, "the start", len(x.shape))
        pairs = zip(update.shape, x.shape, strict=True)
        if any(isinstance(u, int) and isinstance(n, int) and u > n for u, n in pairs):
            fail(node, f"an update {shown(update.shape)} does not fit into {shown(x.shape)}")
    return same_type(node, types)


def _dynamic_update_slice(node: Node, inputs: list[Any]) -> list[Any]:
    """x with `update` written over it from the start offsets on. Offsets at which it would exceed x are clamped, or
    (`checked`) an IndexError."""
    x, update, start = inputs
    asked = ints(start)
    first = [min(max(s, 0), n - u) for s, n, u in zip(asked, x.shape, update.shape, strict=True)]
    if attr(node, "checked") and first != asked:
        raise IndexError(f"an update {shown(update.shape)} at {asked} is not within {shown(x.shape)}")
    y = x.copy()
    y[tuple(slice(s, s + n) for s, n in zip(first, update.shape, strict=True))] = update
    return [y]


@check.takes("x, indices iu")
def _infer_gather(node: Node, types: Types) -> list[TensorType]:
    x, indices = types
    batch = attr(node, "batch_dims")
    if x.shape is None or indices.shape is None:
        return [TensorType(x.dtype, None)]
    axis = axis_of(node, attr(node, "axis"), len(x.shape))
    if not 0 <= batch <= min(axis, len(indices.shape)):
        fail(node, f"batch_dims {batch} must be from 0 to axis {axis} and the indices' rank {len(indices.shape)}")
    check.shape(node, TensorType(None, indices.shape[:batch]), "the batch of indices", *x.shape[:batch])
    check.indices(node, x.shape[axis], node.const(1))
    return [TensorType(x.dtype, (*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :]))]


def _gather(node: Node, inputs: list[Any]) -> list[Any]:
    """A gather along `axis` for each index of the first `batch_dims` axes, which x and indices share."""
    x, indices = inputs
    batch, axis = attr(node, "batch_dims"), attr(node, "axis") % x.ndim
    y = np.empty((*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :]), x.dtype)
    for at in np.ndindex(*x.shape[:batch]):
        y[at] = np.take(x[at], indices[at], axis - batch)
    return [y]


def _pairs(node: Node, pairs: Any, count: int) -> list[tuple[int, int]]:
    if np.size(pairs) % 2:
        fail(node, f"needs pairs (before, after), found {np.size(pairs)} numbers")
    found = [(int(a), int(b)) for a, b in np.asarray(pairs).reshape(-1, 2)]
    if len(found) != count or any(a < 0 or b < 0 for a, b in found):
        fail(node, f"needs {count} pairs (before, after) that are not negative, found {found}")
    return found


def _blocked(node: Node, shape: Any, block: Any, pairs: Any) -> tuple[list[int], list[tuple[int, int]], list[Dim]]:
    """(block extents, padding or crop of each axis, output shape) of space_to_batch and batch_to_space."""
    b = ints(block)
    if min(b, default=1) < 1 or len(shape) < len(b) + 1:
        fail(node, f"blocks {b} do not fit {shown(shape)}")
    found, area = _pairs(node, pairs, len(b)), prod(b)
    apart = node.op == "space_to_batch"
    out: list[Dim] = list(shape)
    if isinstance(out[0], int):
        if not apart and out[0] % area:
            fail(node, f"batch {out[0]} does not divide into blocks {b}")
        out[0] = out[0] * area if apart else out[0] // area
    for i, (n, (before, after)) in enumerate(zip(b, found, strict=True), 1):
        extent = out[i]
        if not isinstance(extent, int):
            continue
        if apart and (extent + before + after) % n:
            fail(node, f"padded axis {i} of {extent + before + after} does not divide into blocks of {n}")
        if not apart and before + after > extent * n:
            fail(node, f"crops {before} and {after} exceed axis {i} of {extent * n}")
        out[i] = (extent + before + after) // n if apart else extent * n - before - after
    return b, found, out


@check.takes("x, block iu, pairs iu")
def _infer_blocks(node: Node, types: Types) -> list[TensorType]:
    x, block, pairs = types[0], node.const(1), node.const(2)
    if x.shape is None or block is None or pairs is None:
        return [TensorType(x.dtype, None if x.shape is None else (None,) * len(x.shape))]
    return [TensorType(x.dtype, tuple(_blocked(node, x.shape, block, pairs)[2]))]


@check.takes("x 1+")
def _infer_diagonal(node: Node, types: Types) -> list[TensorType]:
    shape = types[0].shape
    return [TensorType(types[0].dtype, None if shape is None else (*shape, shape[-1]))]


def _diagonal(node: Node, inputs: list[Any]) -> list[Any]:
    """Vectors along the last axis as diagonals of matrices of zeros."""
    x = inputs[0]
    return [np.where(np.eye(x.shape[-1], dtype=bool), x[..., None], x.dtype.type(0))]


@check.takes("x 2+, diagonal")
def _infer_set_diagonal(node: Node, types: Types) -> list[TensorType]:
    check.one_dtype(node, types)
    if (shape := types[0].shape) is not None:
        last = shape[-2:]
        check.shape(
            node, types[1], "diagonals", *shape[:-2], min(last) if all(isinstance(d, int) for d in last) else None
        )
    return same_type(node, types)


def _set_diagonal(node: Node, inputs: list[Any]) -> list[Any]:
    """Matrices x with the vectors `diagonal` on their main diagonals."""
    x, diagonal = inputs
    places = np.arange(min(x.shape[-2:]))
    y = x.copy()
    y[..., places, places] = diagonal
    return [y]


@check.takes("shape iu 1, other iu 1")
def _infer_shapes(node: Node, types: Types) -> list[TensorType]:
    counts = [length(t) for t in types]
    return [TensorType(INT64, (None if None in counts else max(counts),))]  # type: ignore[type-var]


def _shapes(node: Node, inputs: list[Any]) -> list[Any]:
    return [np.array(np.broadcast_shapes(*(tuple(ints(i)) for i in inputs)), np.int64)]


define("strided_slice", _infer_strided_slice, _strided_slice, attrs=MASKS, moves=True, shaped_by=(1, 2, 3))
define("slice_update", _infer_slice_update, _slice_update, attrs=MASKS, updates=True)
define("dynamic_update_slice", _infer_dynamic_update, _dynamic_update_slice, attrs={"checked": 0}, updates=True)
define("gather_batches", _infer_gather, _gather, attrs={"axis": REQUIRED, "batch_dims": REQUIRED}, moves=True)
define("space_to_batch", _infer_blocks, shaped_by=(1, 2))
define("batch_to_space", _infer_blocks, moves=True, shaped_by=(1, 2))
define("matrix_diag", _infer_diagonal, _diagonal)
define("matrix_set_diag", _infer_set_diagonal, _set_diagonal)
define("broadcast_shapes", _infer_shapes, _shapes)
