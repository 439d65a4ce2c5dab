"""Reading and writing at places that are known at run time only: gathers, scatters, one_hot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ....ir import Node, Value
from ....kernels.move.copy_plan import dense
from ....kernels.move.places_plan import Component, Indices, Loop, gathered, scattered
from ....kernels.move.rows import DEPTH, LEFT_OUT, MOVED, NUMBERS, OUTER, REPORTED
from ....ops.registry import attr
from ...program import ERROR, Ref
from ..registry import Emit, lowers
from .emit import emit_copy, emit_move, movable

WORD = 8
"""The widest elements that are moved so."""


class Plan(NamedTuple):
    """The loops without strides: of each its extent and its axis in source, indices and destination (None: in none);
    whether it is `apart`; and the axes that the indices of a place count along, of the source or the destination.

    `component`: the axis of the indices whose places make one; `spans`: how many places of an axis lie together.
    """

    loops: list[tuple[int, int | None, int | None, int | None, bool]]
    axes: Sequence[int]
    component: int | None = None
    spans: Sequence[int] = ()
    outside: int = REPORTED
    wraps: bool = True


def _fits(node: Node, x: Value, indices: Value, plan: Plan) -> Plan | None:
    dtype = indices.type.dtype
    whole = indices.type.concrete and dtype is not None and dtype.kind in "iu" and indices.type.size > 0
    if not whole or x.type.itemsize > WORD or not x.type.size or not node.out.type.size:
        return None
    return plan if 0 < len(plan.axes) <= DEPTH and len(plan.loops) <= OUTER + 1 else None


def _loops(plan: Plan, s: Sequence[int], i: Sequence[int], d: Sequence[int]) -> list[Loop]:
    def at(strides: Sequence[int], axis: int | None) -> int:
        return 0 if axis is None else strides[axis]

    return [Loop(n, at(s, a), at(i, b), at(d, c), apart) for n, a, b, c, apart in plan.loops]


def _components(plan: Plan, dims: Sequence[int], strides: Sequence[int]) -> list[Component]:
    spans = plan.spans or [1] * len(plan.axes)
    return [
        Component(dims[a] - span + 1, strides[a], dims[a] if plan.wraps else 0)
        for a, span in zip(plan.axes, spans, strict=True)
    ]


def _indices(plan: Plan, value: Value, strides: Sequence[int]) -> Indices:
    assert value.type.dtype is not None
    return Indices(value.type.dtype, 0 if plan.component is None else strides[plan.component], plan.outside)


def _asked(e: Emit, indices: Value, plan: Plan) -> dict[str, Any]:
    """The record's addresses that are not those of a move."""
    return {"index": e.address(indices), "error": ERROR if plan.outside == REPORTED else 0}


# -- gathers


def _gather_elements(node: Node) -> Plan | None:
    x, indices = _operands(node)
    if not movable(node) or not indices.type.concrete or not x.type.dims:
        return None
    axis = attr(node, "axis") % len(x.type.dims)
    loops = [(n, None if a == axis else a, a, a, True) for a, n in enumerate(indices.type.dims)]
    return _fits(node, x, indices, Plan(loops, [axis]))


def _gather_nd(node: Node) -> Plan | None:
    x, indices = _operands(node)
    if not movable(node) or not indices.type.concrete:
        return None
    batch, dims = attr(node, "batch_dims"), indices.type.dims
    lead, depth = len(dims) - 1, dims[-1]
    loops = [(n, a if a < batch else None, a, a, True) for a, n in enumerate(dims[:-1])]
    first = batch + depth
    loops += [(n, first + a, None, lead + a, True) for a, n in enumerate(x.type.dims[first:])]
    return _fits(node, x, indices, Plan(loops, range(batch, first), lead))


def _gather_batches(node: Node) -> Plan | None:
    return _gather_axis(node, attr(node, "batch_dims"))


def _gather(node: Node) -> Plan | None:
    """Indices that are known, and in range, are a table of offsets: see gather.py."""
    indices = node.inputs[1]
    assert indices is not None
    return None if known_places(node) is not None else _gather_axis(node, 0)


def known_places(node: Node) -> np.ndarray | None:
    """The constant indices of a gather, all of them in range and none below 0."""
    indices = node.inputs[1]
    assert indices is not None
    if indices.data is None or not node.x.type.concrete:
        return None
    n, at = node.x.type.dims[attr(node, "axis")], indices.data
    if at.dtype.kind not in "iu" or np.any(at < -n) or np.any(at >= n):
        return None
    places: np.ndarray = at.astype(np.int64).ravel() % max(n, 1)
    return places


def _gather_axis(node: Node, batch: int) -> Plan | None:
    x, indices = _operands(node)
    if not movable(node) or not indices.type.concrete:
        return None
    axis, rank = attr(node, "axis") % len(x.type.dims), len(indices.type.dims)
    loops: list[tuple[int, int | None, int | None, int | None, bool]] = []
    for a, n in enumerate(x.type.dims[:axis]):
        loops.append((n, a, a if a < batch else None, a, True))
    for a, n in enumerate(indices.type.dims[batch:]):
        loops.append((n, None, batch + a, axis + a, True))
    for a, n in enumerate(x.type.dims[axis + 1 :]):
        loops.append((n, axis + 1 + a, None, axis + rank - batch + a, True))
    return _fits(node, x, indices, Plan(loops, [axis]))


def _gather_slices(node: Node) -> Plan | None:
    x, places = _operands(node)
    if not movable(node) or not places.type.concrete:
        return None
    sizes, offset, collapsed = attr(node, "slice_sizes"), attr(node, "offset_dims"), attr(node, "collapsed_dims")
    return _slices(node, x, places, sizes, offset, collapsed, len(node.out.type.dims), MOVED)


def _slices(
    node: Node,
    x: Value,
    places: Value,
    sizes: Sequence[int],
    offset: Sequence[int],
    collapsed: Sequence[int],
    rank: int,
    outside: int,
) -> Plan | None:
    """Slices of x at places, in a tensor of `rank` axes, of which `offset` are those of a slice."""
    vector, dims, start_map = attr(node, "index_vector_dim"), places.type.dims, attr(node, "start_map")
    batch = [a for a in range(rank) if a not in offset]
    kept = [a for a in range(len(sizes)) if a not in collapsed]
    loops: list[tuple[int, int | None, int | None, int | None, bool]] = []
    for a, b in zip(batch, (a for a in range(len(dims)) if a != vector), strict=True):
        loops.append((dims[b], None, b, a, False))
    for a, b in zip(offset, kept, strict=True):
        loops.append((sizes[b], b, None, a, True))
    component = None if vector == len(dims) else vector
    spans = [sizes[a] for a in start_map]
    return _fits(node, x, places, Plan(loops, start_map, component, spans, outside, wraps=False))


def _operands(node: Node) -> tuple[Value, Value]:
    indices = node.inputs[1]
    assert indices is not None
    return node.x, indices


@lowers("gather", match=_gather, strided_in=True, strided_out=True)
@lowers("gather_elements", match=_gather_elements, strided_in=True, strided_out=True)
@lowers("gather_nd", match=_gather_nd, strided_in=True, strided_out=True)
@lowers("gather_batches", match=_gather_batches, strided_in=True, strided_out=True)
@lowers("gather_slices", match=_gather_slices, strided_in=True, strided_out=True)
def gather(e: Emit, node: Node, plan: Plan) -> None:
    """Elements, or slices, from where the indices say."""
    x, indices = _operands(node)
    s, i, d = e.strides(x), e.strides(indices), e.strides(node.out)
    loops, components = _loops(plan, s, i, d), _components(plan, x.type.dims, s)
    move = gathered(loops, components, _indices(plan, indices, i), x.type.itemsize)
    assert move is not None
    emit_move(e, move, e.address(x), e.address(node.out), **_asked(e, indices, plan))


# -- scatters


def _kind(node: Node) -> str | None:
    """The element type of a reduction, as kernels call it."""
    dtype = node.x.type.dtype
    assert dtype is not None
    name = f"{dtype.kind}{8 * dtype.itemsize}"
    return name if name in NUMBERS else None


def _scatters(node: Node, plan: Plan) -> Plan | None:
    """Where the kernels know the reduction."""
    x, indices, updates = node.inputs[:3]
    assert x is not None and indices is not None and updates is not None
    reduction = node.attrs.get("reduction", "none")
    if not updates.type.size or updates.type.quant != x.type.quant:
        return None
    if reduction != "none" and (_kind(node) is None or x.type.quant is not None):
        return None
    if reduction not in ("none", "add", "mul", "min", "max") and not (reduction == "div" and x.type.dtype.kind == "f"):  # type: ignore[union-attr]
        return None
    return _fits(node, x, indices, plan)


def _all_concrete(node: Node) -> bool:
    return movable(node) and all(v is not None and v.type.concrete for v in node.inputs)


def _scatter_elements(node: Node) -> Plan | None:
    if not _all_concrete(node) or not node.x.type.dims:
        return None
    axis, (_, indices) = attr(node, "axis") % len(node.x.type.dims), _operands(node)
    loops = [(n, a, a, None if a == axis else a, a != axis) for a, n in enumerate(indices.type.dims)]
    return _scatters(node, Plan(loops, [axis]))


def _scatter_nd(node: Node) -> Plan | None:
    if not _all_concrete(node):
        return None
    x, indices = _operands(node)
    lead, depth = len(indices.type.dims) - 1, indices.type.dims[-1]
    loops: list[tuple[int, int | None, int | None, int | None, bool]] = []
    loops += [(n, a, a, None, False) for a, n in enumerate(indices.type.dims[:-1])]
    loops += [(n, lead + a, None, depth + a, True) for a, n in enumerate(x.type.dims[depth:])]
    return _scatters(node, Plan(loops, range(depth), lead))


def _scatter_slices(node: Node) -> Plan | None:
    if not _all_concrete(node):
        return None
    x, places, updates = node.inputs
    assert x is not None and places is not None and updates is not None
    offset, collapsed = attr(node, "offset_dims"), attr(node, "collapsed_dims")
    sizes, kept = [1] * len(x.type.dims), [a for a in range(len(x.type.dims)) if a not in collapsed]
    for a, b in zip(offset, kept, strict=True):
        sizes[b] = updates.type.dims[a]
    if any(size > n for size, n in zip(sizes, x.type.dims, strict=True)):
        return None
    plan = _slices(node, x, places, sizes, offset, collapsed, len(updates.type.dims), LEFT_OUT)
    if plan is None:
        return None
    turned = [(n, b, i, a, apart) for n, a, i, b, apart in plan.loops]
    return _scatters(node, plan._replace(loops=turned))


@lowers("scatter_elements", match=_scatter_elements, strided_in=True)
@lowers("scatter_nd", match=_scatter_nd, strided_in=True)
@lowers("scatter_slices", match=_scatter_slices, strided_in=True)
def scatter(e: Emit, node: Node, plan: Plan) -> None:
    """A copy of x, and the updates written over it, or combined with it."""
    indices, updates = node.inputs[1:3]
    assert indices is not None and updates is not None
    _write_over(e, node, updates, indices, plan, node.attrs.get("reduction", "none"))


def _write_over(e: Emit, node: Node, updates: Value, indices: Value, plan: Plan, reduction: str = "none") -> None:
    x, out = node.x, node.out
    s, i, d = e.strides(updates), e.strides(indices), dense(out.type.dims, out.type.itemsize)
    emit_copy(e, x.type.dims, x.type.itemsize, (e.address(x), e.strides(x)), (e.address(out), d))
    kind = _kind(node)
    reduce = None if reduction == "none" or kind is None else (kind, reduction)
    loops, components = _loops(plan, s, i, d), _components(plan, out.type.dims, d)
    move = scattered(loops, components, _indices(plan, indices, i), x.type.itemsize, reduce)
    assert move is not None
    emit_move(e, move, e.address(updates), e.address(out), **_asked(e, indices, plan))


def _dynamic_update(node: Node) -> Plan | None:
    if not _all_concrete(node):
        return None
    x, update, start = node.inputs
    assert x is not None and update is not None and start is not None
    dims = update.type.dims
    loops: list[tuple[int, int | None, int | None, int | None, bool]] = []
    loops += [(n, a, None, a, True) for a, n in enumerate(dims)]
    if not update.type.size or update.type.quant != x.type.quant:
        return None
    return _fits(node, x, start, Plan(loops, range(len(dims)), 0, dims, MOVED, wraps=False))


@lowers("dynamic_update_slice", match=_dynamic_update, strided_in=True)
def dynamic_update_slice(e: Emit, node: Node, plan: Plan) -> None:
    """A copy of x, and a slice written over it where the start says."""
    _, update, start = node.inputs
    assert update is not None and start is not None
    _write_over(e, node, update, start, plan)


# -- one_hot


def _one_hot(node: Node) -> Plan | None:
    indices, values = node.x, node.inputs[2]
    assert values is not None
    dims = indices.type.shape or ()
    if not node.out.type.concrete or not indices.type.concrete or not values.type.concrete:
        return None
    dtype = values.type.dtype
    if dtype is None or dtype.kind not in "biufc" or values.type.quant != node.out.type.quant:
        return None
    axis = attr(node, "axis") % (len(dims) + 1)
    loops = [(n, None, a, a + (a >= axis), True) for a, n in enumerate(dims)]
    return _fits(node, values, indices, Plan(loops, [axis], None, (), LEFT_OUT, bool(attr(node, "wrap"))))


@lowers("one_hot", match=_one_hot)
def one_hot(e: Emit, node: Node, plan: Plan) -> None:
    """All off, then one place on for each index that there is one for."""
    indices, values, out = node.x, node.inputs[2], node.out
    assert values is not None
    size, i, d = out.type.itemsize, dense(indices.type.dims, indices.type.itemsize), dense(
        out.type.dims, out.type.itemsize
    )
    off, on = e.address(values), e.address(values, size)
    emit_copy(e, out.type.dims, size, (off, [0] * len(d)), (e.address(out), d))
    loops, components = _loops(plan, (), i, d), _components(plan, out.type.dims, d)
    move = scattered(loops, components, _indices(plan, indices, i), size)
    assert move is not None
    emit_move(e, move, Ref(on.base, on.offset), e.address(out), **_asked(e, indices, plan))
