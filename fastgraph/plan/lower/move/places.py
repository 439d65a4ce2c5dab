"""Gathers at indices that are known at run time only; reverse_sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ....ir import Node, Value
from ....kernels.move.gather_scatter_plan import Component, Indices, Loop, gathered
from ....kernels.move.rows import DEPTH, MOVED, OUTER, REPORTED
from ....ops.registry import attr
from ...program import ERROR
from ..moves import emit_move, movable
from ..registry import Emit, lowers

WORD = 8
"""The widest elements that these kernels move."""


Walk = tuple[int, int | None, int | None, int | None, bool]
Loops = Sequence[Walk]


class Indexing(NamedTuple):
    """A gather's or scatter's loops without strides: for each its extent, its axis in source, indices and destination
    (None: none), and whether it is `apart`; and `axes`, the axes of the source or the destination that the indices
    count along.

    `component`: the axis of the indices that holds the components of an index vector; `spans`: the positions that each
    indexed slice has along an axis.
    """

    loops: Loops
    axes: Sequence[int]
    component: int | None = None
    spans: Sequence[int] = ()
    outside: int = REPORTED
    wraps: bool = True


def fitting(node: Node, x: Value, indices: Value, plan: Indexing) -> Indexing | None:
    """The plan, where a record has room for its loops and there are elements to move; else None."""
    dtype = indices.type.dtype
    whole = indices.type.concrete and dtype is not None and dtype.kind in "iu" and indices.type.size > 0
    if not whole or x.type.itemsize > WORD or not x.type.size or not node.out.type.size:
        return None
    return plan if 0 < len(plan.axes) <= DEPTH and len(plan.loops) <= OUTER + 1 else None


def loops_of(plan: Indexing, s: Sequence[int], i: Sequence[int], d: Sequence[int]) -> list[Loop]:
    def at(strides: Sequence[int], axis: int | None) -> int:
        return 0 if axis is None else strides[axis]

    return [Loop(n, at(s, a), at(i, b), at(d, c), apart) for n, a, b, c, apart in plan.loops]


def components_of(plan: Indexing, dims: Sequence[int], strides: Sequence[int]) -> list[Component]:
    spans = plan.spans or [1] * len(plan.axes)
    return [
        Component(dims[a] - span + 1, strides[a], dims[a] if plan.wraps else 0)
        for a, span in zip(plan.axes, spans, strict=True)
    ]


def indices_of(plan: Indexing, value: Value, strides: Sequence[int]) -> Indices:
    return Indices(value.type.element, 0 if plan.component is None else strides[plan.component], plan.outside)


def index_slots(indices: Value, plan: Indexing) -> dict[str, Any]:
    """The addresses in the record beside those of a move: the indices and the cell for errors."""
    return {"index": indices, "error": ERROR if plan.outside == REPORTED else 0}


# -- gathers


def _gather_elements(node: Node) -> Indexing | None:
    x, indices = node.x, node.y
    if not movable(node) or not indices.type.concrete or not x.type.dims:
        return None
    axis = attr(node, "axis") % len(x.type.dims)
    loops = [(n, None if a == axis else a, a, a, True) for a, n in enumerate(indices.type.dims)]
    return fitting(node, x, indices, Indexing(loops, [axis]))


def _gather_nd(node: Node) -> Indexing | None:
    x, indices = node.x, node.y
    if not movable(node) or not indices.type.concrete:
        return None
    batch, dims = attr(node, "batch_dims"), indices.type.dims
    lead, depth = len(dims) - 1, dims[-1]
    loops: list[Walk] = [(n, a if a < batch else None, a, a, True) for a, n in enumerate(dims[:-1])]
    first = batch + depth
    loops += [(n, first + a, None, lead + a, True) for a, n in enumerate(x.type.dims[first:])]
    return fitting(node, x, indices, Indexing(loops, range(batch, first), lead))


def _gather_batches(node: Node) -> Indexing | None:
    return _gather_axis(node, attr(node, "batch_dims"))


def _gather(node: Node) -> Indexing | None:
    """The plan of a gather; None for constant indices in range, which are a table of offsets: see gather.py."""
    return None if known_places(node) is not None else _gather_axis(node, 0)


def known_places(node: Node) -> np.ndarray | None:
    """The constant indices of a gather, all of them in range and none below 0."""
    indices = node.y
    if indices.data is None or not node.x.type.concrete:
        return None
    n, at = node.x.type.dims[attr(node, "axis")], indices.data
    if at.dtype.kind not in "iu" or np.any(at < -n) or np.any(at >= n):
        return None
    places: np.ndarray = at.astype(np.int64).ravel() % max(n, 1)
    return places


def _gather_axis(node: Node, batch: int) -> Indexing | None:
    x, indices = node.x, node.y
    if not movable(node) or not indices.type.concrete:
        return None
    axis, rank = attr(node, "axis") % len(x.type.dims), len(indices.type.dims)
    loops: list[Walk] = []
    for a, n in enumerate(x.type.dims[:axis]):
        loops.append((n, a, a if a < batch else None, a, True))
    for a, n in enumerate(indices.type.dims[batch:]):
        loops.append((n, None, batch + a, axis + a, True))
    for a, n in enumerate(x.type.dims[axis + 1 :]):
        loops.append((n, axis + 1 + a, None, axis + rank - batch + a, True))
    return fitting(node, x, indices, Indexing(loops, [axis]))


def _gather_slices(node: Node) -> Indexing | None:
    if not movable(node) or not node.y.type.concrete:
        return None
    outside = REPORTED if attr(node, "checked") else MOVED
    return slices(node, attr(node, "slice_sizes"), len(node.out.type.dims), outside)


def slices(node: Node, sizes: Sequence[int], rank: int, outside: int) -> Indexing | None:
    """The plan of gathering slices of x at offsets, into `rank` axes, of which `offset_dims` are a slice's."""
    x, places = node.x, node.y
    offset, collapsed = attr(node, "offset_dims"), attr(node, "collapsed_dims")
    vector, dims, start_map = attr(node, "index_vector_dim"), places.type.dims, attr(node, "start_map")
    batch = [a for a in range(rank) if a not in offset]
    kept = [a for a in range(len(sizes)) if a not in collapsed]
    loops: list[Walk] = []
    for a, b in zip(batch, (a for a in range(len(dims)) if a != vector), strict=True):
        loops.append((dims[b], None, b, a, False))
    alone = places.type.size == len(start_map)
    for a, b in zip(offset, kept, strict=True):
        # Of slices at several places one may begin within another.
        loops.append((sizes[b], b, None, a, alone or b not in start_map))
    component = None if vector == len(dims) else vector
    spans = [sizes[a] for a in start_map]
    return fitting(node, x, places, Indexing(loops, start_map, component, spans, outside, wraps=False))


@lowers("gather", match=_gather, strided_in=True, strided_out=True)
@lowers("gather_elements", match=_gather_elements, strided_in=True, strided_out=True)
@lowers("gather_nd", match=_gather_nd, strided_in=True, strided_out=True)
@lowers("gather_batches", match=_gather_batches, strided_in=True, strided_out=True)
@lowers("gather_slices", match=_gather_slices, strided_in=True, strided_out=True)
def gather(e: Emit, node: Node, plan: Indexing) -> None:
    """A gather of elements or slices by a plan."""
    x, indices = node.x, node.y
    s, i, d = e.strides(x), e.strides(indices), e.strides(node.out)
    loops, components = loops_of(plan, s, i, d), components_of(plan, x.type.dims, s)
    move = gathered(loops, components, indices_of(plan, indices, i), x.type.itemsize)
    emit_move(e, move, e.address(x), e.address(node.out), **index_slots(indices, plan))


def _reverse(node: Node) -> Indexing | None:
    x, lengths = node.x, node.y
    whole = lengths.type.concrete and lengths.type.dtype is not None and lengths.type.dtype.kind in "iu"
    if not movable(node) or not whole or not x.type.size or x.type.itemsize > WORD:
        return None
    rank = len(x.type.dims)
    batch, time = attr(node, "batch_axis") % rank, attr(node, "time_axis") % rank
    place = {batch: 0, time: 1}
    loops = [(n, None if a == time else a, place.get(a), a, True) for a, n in enumerate(x.type.dims)]
    return Indexing(loops, [time]) if rank <= OUTER + 1 else None


@lowers("reverse_sequence", match=_reverse, strided_in=True, strided_out=True)
def reverse_sequence(e: Emit, node: Node, plan: Indexing) -> None:
    """Compute the step to read for each step, then gather."""
    x, lengths = node.x, node.y
    (time,), dtype = plan.axes, lengths.type.element
    count, steps = lengths.type.size, x.type.dims[time]
    places = e.scratch(8 * count * steps)
    sizes = {"index_size": dtype.itemsize, "signed": int(dtype.kind == "i"), "count": count, "steps": steps}
    e.kernel("backwards", {}, {"places": places, "lengths": lengths, **sizes})
    s, d = e.strides(x), e.strides(node.out)
    loops, components = loops_of(plan, s, (8 * steps, 8), d), components_of(plan, x.type.dims, s)
    move = gathered(loops, components, Indices(np.dtype(np.int64)), x.type.itemsize)
    emit_move(e, move, e.address(x), e.address(node.out), index=places, error=ERROR)
