"""slice_update: a part written over, at places that are known; for others see passes/slice_places.py."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....ir import Node
from ....kernels.move.copy_plan import dense
from ....ops.blocks import index_of
from ....ops.shapes import ints
from ..registry import Emit, lowers
from .emit import emit_copy, emit_old, movable


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


@lowers("slice_update", match=_known, in_place=True)
def at_known_places(e: Emit, node: Node, part: Part) -> None:
    """A copy, and the update over it."""
    update, item = node.inputs[1], node.x.type.itemsize
    assert update is not None
    emit_old(e, node)
    emit_copy(e, part.dims, item, (e.address(update), dense(part.dims, item)),
              (e.address(node.out, part.offset), part.strides))  # fmt: skip
