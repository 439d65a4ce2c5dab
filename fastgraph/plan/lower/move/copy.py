"""Strided copies: reshape, concat, split and slice where a view won't do; transpose, expand, tile, slice_update."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....ir import Node
from ....kernels.move.copy_plan import Move, dense, expanded, sliced, tiled, transposed
from ....ops.blocks import index_of
from ....ops.index import slice_range, slices
from ....ops.inference import ints
from ....ops.shape import permutation
from ..moves import emit_copy, emit_move, emit_old, movable, movable_by_constants
from ..registry import Emit, last, lowers, moved, row_count


def _reshapes(node: Node) -> bool:
    return movable(node) and node.x.type.size == node.out.type.size


@lowers("reshape", match=_reshapes, strided_in=True, strided_out=True, narrow=moved)
@lowers("reinterpret", match=movable, strided_in=True, strided_out=True, narrow=moved)
def reshape(e: Emit, node: Node, _: Any) -> None:
    """No step when the result is a view; else a copy, row by row of the strided side. Where both sides are strided: by
    rows that divide both, or by way of a dense copy."""
    x, out = node.x, node.out
    if e.address(x) == e.address(out):
        return
    size, source, target = x.type.itemsize, e.strided(x), e.strided(out)
    if e.dense(x):
        emit_copy(e, out.type.dims, size, (source[0], dense(out.type.dims, size)), target)
    elif e.dense(out):
        emit_copy(e, x.type.dims, size, source, (target[0], dense(x.type.dims, size)))
    elif last(x) == last(out):
        rows = (row_count(x), last(x))
        emit_copy(e, rows, size, (source[0], (size * e.stride(x), size)), (target[0], (size * e.stride(out), size)))
    else:
        between = e.scratch(x.type.nbytes)
        emit_copy(e, x.type.dims, size, source, (between, dense(x.type.dims, size)))
        emit_copy(e, out.type.dims, size, (between, dense(out.type.dims, size)), target)


@lowers("concat", match=movable, strided_in=True, strided_out=True, narrow=moved)
def concat(e: Emit, node: Node, _: Any) -> None:
    """Copies the inputs that are not views of the result."""
    out = node.out
    axis = node.attrs["axis"] % len(out.type.dims)
    strides, at = e.strides(out), 0
    for value in node.inputs:
        assert value is not None
        place = e.address(out, at * strides[axis])
        at += value.type.dims[axis]
        if value.data is not None or e.address(value) != place:
            emit_copy(e, value.type.dims, out.type.itemsize, e.strided(value), (place, strides))


@lowers("split", match=movable, strided_in=True, strided_out=True, narrow=moved)
def split(e: Emit, node: Node, _: Any) -> None:
    """Copies the parts that are not views."""
    x = node.x
    axis = node.attrs["axis"] % len(x.type.dims)
    strides, at = e.strides(x), 0
    for value in node.outputs:
        place = e.address(x, at * strides[axis])
        at += value.type.dims[axis]
        if e.address(value) != place:
            emit_copy(e, value.type.dims, x.type.itemsize, (place, strides), e.strided(value))


def _slice(node: Node) -> list[range] | None:
    """The range of indices that a slice reads along each axis."""
    if not movable_by_constants(node):
        return None
    taken = [range(n) for n in node.x.type.dims]
    for axis, cut in slices(node, len(taken), *(node.const(i) for i in range(1, 5))).items():
        taken[axis] = slice_range(cut, len(taken[axis]))
    return taken


@lowers("slice", match=_slice, strided_in=True, strided_out=True, narrow=moved)
def slice_(e: Emit, node: Node, taken: list[range]) -> None:
    """A copy, unless the result is a view."""
    x, out = node.x, node.out
    starts, steps = [axis.start for axis in taken], [axis.step for axis in taken]
    move = sliced(x.type.dims, starts, steps, out.type.dims, x.type.itemsize, e.strides(x), e.strides(out))
    if out.type.size and e.address(x, move.src_offset) != e.address(out):
        emit_move(e, move, e.address(x), e.address(out))


def _transpose(node: Node) -> tuple[int, ...] | None:
    return permutation(node, len(node.x.type.dims)) if movable(node) else None


@lowers("transpose", match=_transpose, strided_in=True, strided_out=True, narrow=moved)
def transpose(e: Emit, node: Node, perm: tuple[int, ...]) -> None:
    """A strided copy."""
    x, out = node.x, node.out
    if out.type.size:
        move = transposed(x.type.dims, perm, x.type.itemsize, e.strides(x), e.strides(out))
        emit_move(e, move, e.address(x), e.address(out))


@lowers("expand", match=movable_by_constants, strided_in=True, strided_out=True, narrow=moved)
def expand(e: Emit, node: Node, _: Any) -> None:
    x, out = node.x, node.out
    if out.type.size:
        move = expanded(x.type.dims, out.type.dims, x.type.itemsize, e.strides(x), e.strides(out))
        emit_move(e, move, e.address(x), e.address(out))


def _tile(node: Node) -> Move | None:
    repeats = node.const(1)
    if not movable_by_constants(node) or not node.out.type.size or repeats is None:
        return None
    try:
        return tiled(node.x.type.dims, repeats.tolist(), node.x.type.itemsize)
    except ValueError:  # more loops than the kernels have
        return None


@lowers("tile", match=_tile)
def tile(e: Emit, node: Node, move: Move) -> None:
    emit_move(e, move, e.address(node.x), e.address(node.out))


class Part(NamedTuple):
    """A slice that is overwritten: shape, byte strides and byte offset."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def _known(node: Node) -> Part | None:
    """The slice, where begin, end and steps are constant and the update has its shape."""
    update, given = node.inputs[1], [node.const(i) for i in (2, 3, 4)]
    if not _moves(node) or any(v is None for v in given):
        return None
    assert update is not None
    x = node.x.type
    strides = *dense(x.dims, x.itemsize), 1
    whole = np.lib.stride_tricks.as_strided(np.zeros(x.itemsize, np.uint8), (*x.dims, x.itemsize), strides)
    part = whole[(*index_of(node, *map(ints, given)), ...)]
    if part.size != update.type.nbytes:
        return None
    start = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return Part(part.shape[:-1], part.strides[:-1], start)


def _moves(node: Node) -> bool:
    update = node.y
    x = node.x.type
    alike = update.type.concrete and update.type.size > 0 and update.type.quant == x.quant
    return movable(node) and x.size > 0 and x.itemsize <= 8 and alike


@lowers("slice_update", match=_known, in_place=True)
def at_known_places(e: Emit, node: Node, part: Part) -> None:
    """A copy of x, and the update over the slice."""
    update, item = node.y, node.x.type.itemsize
    emit_old(e, node)
    target = e.address(node.out, part.offset), part.strides
    emit_copy(e, part.dims, item, (e.address(update), dense(part.dims, item)), target)
