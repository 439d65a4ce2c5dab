"""Moves by constant indices and with fill: gather, pad."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir import Node
from ....kernels.move.copy_plan import Move
from ....kernels.move.take_plan import padded, taken
from ....ops.index import pad_amounts
from ....ops.registry import attr
from ..moves import bits, emit_copy, emit_move, movable, movable_by_constants
from ..registry import Emit, lowers
from .places import known_places


def _fill(node: Node) -> int | None:
    """The bits of a constant pad's fill, where it is known."""
    x, fill = node.x.type, node.input(2)
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
    if not out.type.size:
        return
    mode, fill = plan
    step = next((s for n, s in zip(out.type.dims[::-1], e.strides(out)[::-1], strict=True) if n > 1), None)
    if mode == "constant" and step not in (None, x.type.itemsize):
        _pad_apart(e, node, amounts, fill)
        return
    move = padded(x.type.dims, amounts, x.type.itemsize, mode, fill, e.strides(x), e.strides(out))
    emit_move(e, move, e.address(x), e.address(out))


def _pad_apart(e: Emit, node: Node, amounts: Sequence[tuple[int, int]], fill: int) -> None:
    """A constant pad whose elements are not adjacent: fill the result, then copy the part of x that isn't cropped."""
    x, out, size = node.x, node.out, node.x.type.itemsize
    number = e.constant(np.array([fill], np.uint64).view(np.uint8)[:size].copy())
    to, strides = e.address(out), e.strides(out)
    emit_copy(e, out.type.dims, size, (number, (0,) * len(strides)), (to, strides))
    inside = [max(n + min(a, 0) + min(b, 0), 0) for n, (a, b) in zip(x.type.dims, amounts, strict=True)]
    source = sum(s * max(-a, 0) for s, (a, _) in zip(e.strides(x), amounts, strict=True))
    target = sum(s * max(a, 0) for s, (a, _) in zip(strides, amounts, strict=True))
    emit_copy(e, inside, size, (e.address(x, source), e.strides(x)), (to.plus(target), strides))


def _centered(node: Node) -> bool:
    return movable_by_constants(node) and node.x.type.itemsize <= 8 and node.x.type.quant is None


@lowers("center_crop_pad", match=_centered, strided_in=True, strided_out=True)
def center_crop_pad(e: Emit, node: Node, _: bool) -> None:
    """A pad that crops where amounts are negative; of an odd difference the smaller half comes first."""
    x, out = node.x, node.out
    pairs = zip(x.type.dims, out.type.dims, strict=True)
    before = [(n - have) // 2 if n > have else -((have - n) // 2) for have, n in pairs]
    amounts = [(b, n - have - b) for b, have, n in zip(before, x.type.dims, out.type.dims, strict=True)]
    if out.type.size:
        move = padded(x.type.dims, amounts, x.type.itemsize, "constant", 0, e.strides(x), e.strides(out))
        emit_move(e, move, e.address(x), e.address(out))


def _gather(node: Node) -> Move | None:
    """A gather at constant indices, by a table of offsets; for others see places.py."""
    x, at = node.x, known_places(node)
    if not movable(node) or at is None or x.type.itemsize > 8 or not node.out.type.size or not x.type.size:
        return None
    indices: list[np.ndarray | None] = [None] * len(x.type.dims)
    indices[attr(node, "axis")] = at
    return taken(x.type.dims, indices, x.type.itemsize)


@lowers("gather", match=_gather)
def gather(e: Emit, node: Node, move: Move) -> None:
    emit_move(e, move, e.address(node.x), e.address(node.out))
