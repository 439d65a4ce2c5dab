"""Moves by indices and with fill: gather, pad."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....kernels.move.copy_plan import Move
from ....kernels.move.gather_plan import gathered, padded, taken
from ....ops.index import pad_amounts
from ...program import ERROR
from ..registry import Emit, lowers
from .emit import bits, emit_move, movable, movable_by_constants


def _fill(node: Node) -> int | None:
    """The bits of a constant pad's fill, if they are known."""
    x, fill = node.x.type, node.inputs[2] if len(node.inputs) > 2 else None
    if fill is None:
        return 0 if x.quant is None else None  # 0 is another number where it is stored
    if fill.data is None or fill.data.size != 1 or fill.type.quant != x.quant:
        return None
    return bits(fill.data.astype(x.dtype))


def _pad(node: Node) -> tuple[str, int] | None:
    """Mode and bits of the fill."""
    mode = node.attrs.get("mode", "constant")
    if not movable_by_constants(node) or node.x.type.itemsize > 8:
        return None
    fill = _fill(node) if mode == "constant" else 0
    return None if fill is None else (mode, fill)


@lowers("pad", match=_pad, strided_in=True, strided_out=True)
def pad(e: Emit, node: Node, plan: tuple[str, int]) -> None:
    x, out = node.x, node.out
    amounts = pad_amounts(node, len(x.type.dims), node.const(1), node.const(3))
    if out.type.size:
        move = padded(x.type.dims, amounts, x.type.itemsize, *plan, e.strides(x), e.strides(out))
        emit_move(e, move, e.address(x), e.address(out))


def _gather(node: Node) -> Move | None:
    """By a table of offsets when the indices are known; others are read and checked at run time."""
    x, indices = node.x, node.inputs[1]
    assert indices is not None
    whole = indices.type.concrete and indices.type.dtype in (np.int32, np.int64)
    if not movable(node) or not whole or x.type.itemsize > 8 or not node.out.type.size or not x.type.size:
        return None
    dims, size = x.type.dims, x.type.itemsize
    axis = node.attrs.get("axis", 0) % len(dims)
    n = dims[axis]
    if indices.data is None or np.any(indices.data < -n) or np.any(indices.data >= n):
        return gathered(dims, axis, indices.type.size, size, indices.type.itemsize)
    at: list[np.ndarray | None] = [None] * len(dims)
    at[axis] = indices.data.astype(np.int64).ravel() % n
    return taken(dims, at, size)


@lowers("gather", match=_gather)
def gather(e: Emit, node: Node, move: Move) -> None:
    indices = node.inputs[1]
    assert indices is not None
    more = {"index": e.address(indices), "error": ERROR} if move.kernel == "gather" else {}
    emit_move(e, move, e.address(node.x), e.address(node.out), **more)
