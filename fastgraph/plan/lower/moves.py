"""Shared by lowerings that move data: which nodes they take, and how a planned move is written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir import Node
from ...kernels.move.copy_plan import Move, copied, dense
from ..program import Ref
from ..storage import keeps_numbers
from .emit import Slot
from .registry import Emit

SIZES = (1, 2, 4, 8, 16)
"""Bytes of the elements that kernels move."""


def movable(node: Node) -> bool:
    """Whether the node moves elements of a plain type between concrete shapes, and the numbers keep their meaning."""
    dtype = node.x.type.dtype
    plain = dtype is not None and dtype.kind in "biufc" and dtype.itemsize in SIZES
    return plain and keeps_numbers(node) and all(v.type.concrete for v in (node.x, *node.outputs))


def movable_by_constants(node: Node) -> bool:
    """As `movable`, where all operands but the first are constant."""
    return movable(node) and all(v is None or v.data is not None for v in node.inputs[1:])


def emit_move(e: Emit, move: Move, src: Ref, dst: Ref, **more: Slot) -> None:
    """Write a planned move from `src` to `dst`; `more` are the record's other slots."""
    ends = {"src": src.plus(move.src_offset), "dst": dst.plus(move.dst_offset)}
    e.kernel(move.kernel, move.params, {**move.args, **ends, **more})


def emit_copy(
    e: Emit, shape: Sequence[int], itemsize: int, src: tuple[Ref, Sequence[int]], dst: tuple[Ref, Sequence[int]]
) -> None:
    """Copy elements of `itemsize` bytes; no step where the shape is empty."""
    if 0 not in shape:
        emit_move(e, copied(shape, src[1], dst[1], itemsize), src[0], dst[0])


def emit_old(e: Emit, node: Node) -> None:
    """Copy the first operand to the result's memory, unless it lies there already."""
    x, out, size = node.x, node.out, node.x.type.itemsize
    if not (e.dense(x) and e.address(x) == e.address(out)):
        emit_copy(e, x.type.dims, size, e.strided(x), (e.address(out), dense(out.type.dims, size)))


def bits(element: np.ndarray) -> int:
    """The bits of an array of one element."""
    return int(element.reshape(1).view(f"u{element.itemsize}")[0])
