"""Data movement: what views leave to do for reshape, concat, split and slice; transpose, expand, tile, pad, gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import Node, Value
from ...kernels.move import moves, places
from ...ops.index import places as places_of
from ...ops.index import slices
from ...ops.shape import permutation
from ..program import ERROR, Ref
from ..storage import keeps_numbers
from .registry import Emit, lowers

SIZES = (1, 2, 4, 8, 16)
PAD_MODES = frozenset({"constant", "reflect", "symmetric", "edge", "wrap"})


def movable(node: Node) -> bool:
    """Whether the node moves elements of a plain type between concrete shapes, and the numbers keep their meaning."""
    dtype = node.x.type.dtype
    plain = dtype is not None and dtype.kind in "biufc" and dtype.itemsize in SIZES
    return plain and keeps_numbers(node) and all(v.type.concrete for v in (node.x, *node.outputs))


def emit_move(e: Emit, move: moves.Move, src: Ref, dst: Ref, **more: Ref) -> None:
    """Write a planned move from `src` to `dst`."""
    args = {k: e.constant(a) if isinstance(a, np.ndarray) else a for k, a in move.args.items()}
    ends = {"src": Ref(src.base, src.offset + move.src_offset), "dst": Ref(dst.base, dst.offset + move.dst_offset)}
    e.kernel(move.kernel, move.params, {**args, **ends, **more})


Place = tuple[Ref, Sequence[int]]


def copy_part(e: Emit, shape: Sequence[int], src: Place, dst: Place, size: int) -> None:
    """Copy elements of `shape` from (address, byte strides) to (address, byte strides)."""
    if 0 not in shape:
        emit_move(e, moves.move(shape, src[1], dst[1], size), src[0], dst[0])


def itemsize(value: Value) -> int:
    assert value.type.dtype is not None
    return value.type.dtype.itemsize


def _reshapes(node: Node) -> bool:
    return movable(node) and node.x.type.size == node.out.type.size


@lowers("reshape", match=_reshapes, strided_in=True, strided_out=True)
def reshape(e: Emit, node: Node, _: Any) -> None:
    """Nothing when the result is a view; else a copy, row by row of the shape whose side is strided."""
    x, out = node.x, node.out
    if e.address(x) == e.address(out):
        return
    shape = x.type.dims if not e.dense(x) else out.type.dims
    size = itemsize(x)
    dense = moves.dense(shape, size)
    src = dense if e.dense(x) else e.strides(x)
    dst = dense if e.dense(out) else e.strides(out)
    copy_part(e, shape, (e.address(x), src), (e.address(out), dst), size)


@lowers("concat", match=movable, strided_in=True, strided_out=True)
def concat(e: Emit, node: Node, _: Any) -> None:
    """Copies the inputs that were not made in their place."""
    out = node.out
    axis = node.attrs["axis"] % len(out.type.dims)
    strides, at = e.strides(out), 0
    for value in node.inputs:
        assert value is not None
        place = e.address(out, at * strides[axis])
        at += value.type.dims[axis]
        if value.data is None and e.address(value) == place:
            continue
        copy_part(e, value.type.dims, (e.address(value), e.strides(value)), (place, strides), itemsize(out))


@lowers("split", match=movable, strided_in=True, strided_out=True)
def split(e: Emit, node: Node, _: Any) -> None:
    """Copies the parts that are not views."""
    x = node.x
    axis = node.attrs["axis"] % len(x.type.dims)
    strides, at = e.strides(x), 0
    for value in node.outputs:
        place = e.address(x, at * strides[axis])
        at += value.type.dims[axis]
        if e.address(value) != place:
            copy_part(e, value.type.dims, (place, strides), (e.address(value), e.strides(value)), itemsize(x))


def _constant_parameters(node: Node) -> bool:
    return movable(node) and all(v is None or v.data is not None for v in node.inputs[1:])


@lowers("slice", match=_constant_parameters, strided_in=True, strided_out=True)
def slice_(e: Emit, node: Node, _: Any) -> None:
    """A copy, unless the result is a view."""
    x, out = node.x, node.out
    starts, steps = bounds(node)
    size = itemsize(x)
    move = moves.sliced(x.type.dims, starts, steps, out.type.dims, size, e.strides(x), e.strides(out))
    if out.type.size and e.address(x, move.src_offset) != e.address(out):
        emit_move(e, move, e.address(x), e.address(out))


def bounds(node: Node) -> tuple[list[int], list[int]]:
    """Start and step of a slice with constant parameters, per axis of its input."""
    dims = node.x.type.dims
    first, step = [0] * len(dims), [1] * len(dims)
    for axis, cut in slices(node, len(dims), *(node.const(i) for i in range(1, 5))).items():
        taken = places_of(cut, dims[axis])
        first[axis], step[axis] = taken.start, taken.step
    return first, step


@lowers("transpose", match=movable, strided_in=True, strided_out=True)
def transpose(e: Emit, node: Node, _: Any) -> None:
    """A copy in another order."""
    x, out = node.x, node.out
    if out.type.size:
        move = moves.transposed(x.type.dims, permutation(node), itemsize(x), e.strides(x), e.strides(out))
        emit_move(e, move, e.address(x), e.address(out))


@lowers("expand", match=_constant_parameters, strided_in=True, strided_out=True)
def expand(e: Emit, node: Node, _: Any) -> None:
    x, out = node.x, node.out
    if out.type.size:
        move = moves.expanded(x.type.dims, out.type.dims, itemsize(x), e.strides(x), e.strides(out))
        emit_move(e, move, e.address(x), e.address(out))


def _tiles(node: Node) -> bool:
    return _constant_parameters(node) and len(node.x.type.dims) <= 4 and node.out.type.size > 0


@lowers("tile", match=_tiles)
def tile(e: Emit, node: Node, _: Any) -> None:
    repeats = node.const(1)
    assert repeats is not None
    move = moves.tiled(node.x.type.dims, [int(r) for r in repeats], itemsize(node.x))
    emit_move(e, move, e.address(node.x), e.address(node.out))


def _pads(node: Node) -> bool:
    mode, fill = node.attrs.get("mode", "constant"), node.inputs[2] if len(node.inputs) > 2 else None
    plain = _constant_parameters(node) and itemsize(node.x) <= 8 and mode in PAD_MODES
    if mode != "constant":
        return plain
    if fill is None:
        return plain and node.x.type.quant is None  # 0 is another number where it is stored
    return plain and fill.data is not None and fill.data.size == 1 and fill.type.quant == node.x.type.quant


@lowers("pad", match=_pads, strided_in=True, strided_out=True)
def pad(e: Emit, node: Node, _: Any) -> None:
    x, out = node.x, node.out
    pads, value, axes = node.const(1), node.const(2), node.const(3)
    assert pads is not None
    rank, size = len(x.type.dims), itemsize(x)
    before, after = [0] * rank, [0] * rank
    chosen = range(rank) if axes is None else [int(a) % rank for a in axes]
    for i, axis in enumerate(chosen):
        before[axis], after[axis] = int(pads[i]), int(pads[i + len(pads) // 2])
    fill = np.zeros(1, x.type.dtype) if value is None else value.reshape(-1)[:1].astype(x.type.dtype)
    bits = int(fill.view(f"u{size}")[0])
    mode = node.attrs.get("mode", "constant")
    if out.type.size:
        move = places.padded(x.type.dims, before, after, size, mode, bits, e.strides(x), e.strides(out))
        emit_move(e, move, e.address(x), e.address(out))


def _gathers(node: Node) -> bool:
    indices = node.inputs[1]
    assert indices is not None
    whole = indices.type.concrete and indices.type.dtype in (np.int32, np.int64)
    return movable(node) and itemsize(node.x) <= 8 and whole and node.out.type.size > 0 and node.x.type.size > 0


@lowers("gather", match=_gathers)
def gather(e: Emit, node: Node, _: Any) -> None:
    """Constant indices become a table of offsets; others are read and checked at run time."""
    x, indices = node.x, node.inputs[1]
    assert indices is not None and indices.type.dtype is not None
    dims = x.type.dims
    axis, size = node.attrs.get("axis", 0) % len(dims), itemsize(x)
    if indices.data is not None and (np.all(indices.data >= -dims[axis]) and np.all(indices.data < dims[axis])):
        at: list[np.ndarray | None] = [None] * len(dims)
        at[axis] = indices.data.astype(np.int64).ravel() % dims[axis]
        emit_move(e, places.taken(dims, at, size), e.address(x), e.address(node.out))
        return
    move = places.gathered(dims, axis, indices.type.size, size, itemsize(indices))
    emit_move(e, move, e.address(x), e.address(node.out), index=e.address(indices), error=ERROR)
