"""slice_update: a part written over, at places that are known, or that are read at run time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....ir import Node
from ....kernels.move.copy_plan import dense
from ....kernels.move.places_plan import Component, Indices, Loop, scattered
from ....kernels.move.rows import DEPTH, OUTER
from ....ops.blocks import MASKS, index_of
from ....ops.common import ints
from ....ops.registry import attr
from ...program import ERROR, Ref
from ..registry import Emit, lowers
from .emit import emit_copy, emit_move, movable

ANYWHERE = 1 << 44
"""Half of the indices that mean nothing where a mask says so."""


class Part(NamedTuple):
    """What is written over: its shape, bytes from its first element's to the next along each axis, where it begins."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def _known(node: Node) -> Part | None:
    """The part, where begin, end and steps are constants and the update has its size."""
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
    update = node.inputs[1]
    assert update is not None
    x = node.x.type
    alike = update.type.concrete and update.type.size > 0 and update.type.quant == x.quant
    return movable(node) and x.size > 0 and x.itemsize <= 8 and alike


@lowers("slice_update", match=_known)
def at_known_places(e: Emit, node: Node, part: Part) -> None:
    """A copy, and the update over it."""
    _copied(e, node)
    item = node.x.type.itemsize
    target = e.address(node.out, part.offset), part.strides
    emit_copy(e, part.dims, item, (_update(e, node), dense(part.dims, item)), target)


def _copied(e: Emit, node: Node) -> None:
    x, strides = node.x, dense(node.x.type.dims, node.x.type.itemsize)
    emit_copy(e, x.type.dims, x.type.itemsize, (e.address(x), strides), (e.address(node.out), strides))


def _update(e: Emit, node: Node) -> Ref:
    update = node.inputs[1]
    assert update is not None
    return e.address(update)


def _read(node: Node) -> tuple[int, ...] | None:
    """The update's extents along the axes of x, where the begin is read at run time and steps are 1.

    What is written is as large as the update is, whatever the end says.
    """
    begin, steps = node.inputs[2], node.const(4)
    if not _moves(node) or steps is None or np.any(steps != 1) or begin is None or begin.data is not None:
        return None
    dims, update = node.x.type.dims, node.inputs[1]
    assert update is not None
    plain = all(attr(node, name) == 0 for name in MASKS if name not in ("begin_mask", "end_mask", "shrink_axis_mask"))
    if not plain or not begin.type.concrete or begin.type.dims != (len(dims),) or not 0 < len(dims) <= DEPTH:
        return None
    left, found = list(update.type.dims), []
    for axis, n in enumerate(dims):
        gone = attr(node, "shrink_axis_mask") >> axis & 1
        size = 1 if gone else left.pop(0) if left else 0
        if not 0 < size <= n or (attr(node, "begin_mask") >> axis & 1 and attr(node, "end_mask") >> axis & 1
                                 and size != n):  # fmt: skip
            return None
        found.append(size)
    return tuple(found) if not left and len(found) <= OUTER else None


@lowers("slice_update", match=_read)
def at_places_read(e: Emit, node: Node, sizes: tuple[int, ...]) -> None:
    """A copy, and the update over it from where the begin says."""
    begin, item, dims = node.inputs[2], node.x.type.itemsize, node.x.type.dims
    assert begin is not None and begin.type.dtype is not None
    _copied(e, node)
    strides, own = dense(dims, item), dense(sizes, item)
    loops = [Loop(n, s, 0, d) for n, s, d in zip(sizes, own, strides, strict=True)]
    components = [
        Component(2 * ANYWHERE, 0, ANYWHERE) if attr(node, "begin_mask") >> axis & 1
        else Component(n - size + 1, stride, n)
        for axis, (n, size, stride) in enumerate(zip(dims, sizes, strides, strict=True))
    ]  # fmt: skip
    move = scattered(loops, components, Indices(begin.type.dtype, begin.type.itemsize), item)
    assert move is not None
    emit_move(e, move, _update(e, node), e.address(node.out), index=e.address(begin), error=ERROR)
