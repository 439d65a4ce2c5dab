"""Strided copies: reshape, concat, split and slice where a view won't do; transpose, expand, tile, slice_update."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import numpy as np

from ....ir import Node, Value
from ....kernels.move.copy_plan import Move, View, dense, seen, tiled, viewed
from ....ops.blocks import index_of
from ....ops.index import slice_index
from ....ops.inference import ints
from ....ops.shape import permutation
from ..emit import Strided
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
    for value, place in _parts(e, node, node.out, node.operands):
        if value.data is not None or e.address(value) != place[0]:
            emit_copy(e, value.type.dims, node.out.type.itemsize, e.strided(value), place)


@lowers("split", match=movable, strided_in=True, strided_out=True, narrow=moved)
def split(e: Emit, node: Node, _: Any) -> None:
    """Copies the parts that are not views."""
    for value, place in _parts(e, node, node.x, node.outputs):
        if e.address(value) != place[0]:
            emit_copy(e, value.type.dims, node.x.type.itemsize, place, e.strided(value))


def _parts(e: Emit, node: Node, whole: Value, parts: Iterable[Value]) -> Iterator[tuple[Value, Strided]]:
    """Parts of a value along the node's axis, each with where it is in the whole."""
    axis = node.attrs["axis"] % len(whole.type.dims)
    strides, at = e.strides(whole), 0
    for part in parts:
        yield part, Strided(e.address(whole, at * strides[axis]), strides)
        at += part.type.dims[axis]


def _slice(node: Node) -> View | None:
    if not movable_by_constants(node):
        return None
    index = slice_index(node, node.x.type.dims, *(node.const(i) for i in range(1, 5)))
    return lambda x: x[index]


def _transpose(node: Node) -> View | None:
    perm = permutation(node) if movable(node) else None
    return None if perm is None else lambda x: x.transpose(perm)


def _expand(node: Node) -> View | None:
    dims = node.out.type.dims if movable_by_constants(node) else None
    return None if dims is None else lambda x: np.broadcast_to(x, dims)


@lowers("slice", match=_slice, strided_in=True, strided_out=True, narrow=moved)
@lowers("transpose", match=_transpose, strided_in=True, strided_out=True, narrow=moved)
@lowers("expand", match=_expand, strided_in=True, strided_out=True, narrow=moved)
def strided(e: Emit, node: Node, view: View) -> None:
    """A strided copy, unless the result lies within the operand."""
    x, out = node.x, node.out
    if not out.type.size:
        return
    move = viewed(view, x.type.dims, x.type.itemsize, e.strides(x), e.strides(out))
    if e.address(x, move.src_offset) != e.address(out):
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


Part = tuple[tuple[int, ...], tuple[int, ...], int]
"""A slice that is overwritten: shape, byte strides and byte offset."""


def _known(node: Node) -> Part | None:
    """The slice, where begin, end and steps are constant and the update has its shape."""
    update, given = node.y, [node.const(i) for i in (2, 3, 4)]
    if not _moves(node) or any(v is None for v in given):
        return None
    index = index_of(node, *map(ints, given))
    dims, strides, offset = seen(lambda x: x[(*index, ...)], node.x.type.dims, node.x.type.itemsize)
    return (dims, strides, offset) if prod(dims) == update.type.size else None


def _moves(node: Node) -> bool:
    update = node.y
    x = node.x.type
    alike = update.type.concrete and update.type.size > 0 and update.type.quant == x.quant
    return movable(node) and x.size > 0 and x.itemsize <= 8 and alike


@lowers("slice_update", match=_known, in_place=True)
def at_known_places(e: Emit, node: Node, part: Part) -> None:
    """A copy of x, and the update over the slice."""
    update, item = node.y, node.x.type.itemsize
    dims, strides, offset = part
    emit_old(e, node)
    emit_copy(e, dims, item, (e.address(update), dense(dims, item)), (e.address(node.out, offset), strides))
