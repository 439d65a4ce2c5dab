"""Rules for bounded values: reading and writing at indices. Indices beyond the count are 0, or write to a row that
nobody reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import Node, Value
from ...ops.registry import attr
from .shapes import unflattened
from .state import Bounds, follows
from .values import Below, Bounded, Unbounded, reaches, refuse, same


def indices_within(g: Bounds, x: Bounded, indices: Bounded, axes: Sequence[int], places: int | None = None) -> Value:
    """Indices along `axes` of x that are in range everywhere, also where they are padding. `places`: the axis along
    which the indices are vectors, with a component for each of `axes`.
    """
    refuse(any(not x.value.type.dims[a] for a in axes))
    if all(_known_in_range(x, indices.below, axis, i, places) for i, axis in enumerate(axes)):
        return indices.value if indices.clean else g.masked(indices, 0)
    refuse(any(x.extents[a].each is None for a in axes if a in x.extents))
    return g.masked(indices._replace(value=_checked_by_run(g, x, indices.value, axes, places)), 0)


def _known_in_range(x: Bounded, below: Below | None, axis: int, i: int, places: int | None) -> bool:
    """Whether indices along one axis of x are known to be in range."""
    if axis not in x.extents:
        return True
    if below is None or below.axis != places and len(below.extents) > 1:
        return False
    return reaches(below.extents[i if below.axis is not None else 0], x.extents[axis])


def _checked_by_run(g: Bounds, x: Bounded, indices: Value, axes: Sequence[int], places: int | None) -> Value:
    """Indices counted from the first element. Those beyond the real elements of x are moved past its padded extent, so
    that the run fails.
    """
    dims = np.empty(len(axes), object)
    dims[:] = [x.dims[a] for a in axes]
    i = g.cast(indices, np.int64)
    sizes = g.stacked(dims if places is not None else dims[0, ...])
    return _from_front(g, i, sizes, max(x.value.type.dims) + 1)


def _from_front(g: Bounds, i: Value, sizes: Any, beyond: Any) -> Value:
    """Indices of which negative ones count from the end, as indices from the front; `beyond` for those out of range."""
    i = g.choose(i < 0, i + sizes, i)
    return g.choose((i >= 0) & (i < sizes), i, beyond)


def _always_there(g: Bounds, x: Bounded, indices: Bounded, axis: int) -> Value | None:
    """Constant indices of elements that an axis has in every run, negative ones counted from the front; None for all
    others.
    """
    size, data = x.extents.get(axis), indices.value.data
    if size is None or data is None or not data.size or data.max() >= size.least or data.min() < -size.least:
        return None
    data = data.astype(np.int64)
    return g.choose(data < 0, size.count + data, data) if data.min() < 0 else g.held(data)


def _of_rows(g: Bounds, x: Bounded, indices: Bounded) -> Bounded:
    """A gather from x flattened, by indices that count its real elements only."""
    (length,), i = x.extents.values(), g.cast(g.masked(indices, 0), np.dtype(np.int64))
    refuse(not length.least)
    size = x.value.type.size
    i = _from_front(g, i, g("mul", length.count, g.ints(size // length.most)), size * length.most)
    row = g("div", i, length.count)
    place = row * length.most + (i - row * length.count)
    return Bounded(g.pick(g.shape(x.value, size), place), indices.extents)


def _column(node: Node) -> int | None:
    """The rank of x where all but its first axis are of extent 1 and `node` gathers along that; else None."""
    dims = node.x.type.shape
    return len(dims) if dims and attr(node, "axis") in (0, -len(dims)) and all(d == 1 for d in dims[1:]) else None


@follows("gather")
def gather(g: Bounds, node: Node) -> list[Bounded]:
    rows, rank = unflattened(g, node.x), _column(node)
    if rows is not None and rank is not None and [*rows.extents] == [len(rows.dims) - 1]:
        found = _of_rows(g, rows, g.take(node.inputs[1]))
        return [found._replace(value=g.shape(found.value, *found.value.type.dims, *[1] * (rank - 1)))]
    x, indices = g.take(node.x), g.take(node.inputs[1])
    axis, more = attr(node, "axis") % len(x.dims), len(indices.dims)
    places = _always_there(g, x, indices, axis)
    if places is None:
        places = indices_within(g, x, indices, [axis])
    value = g.again(node, x.value, places)[0]
    extents = {a if a < axis else a + more - 1: n for a, n in x.extents.items() if a != axis}
    extents |= {axis + a: n for a, n in indices.extents.items()}
    below = x.below
    if below is not None and below.axis is not None:
        if below.axis != axis:
            below = below._replace(axis=below.axis if below.axis < axis else below.axis + more - 1)
        elif indices.value.data is not None and indices.value.data.size == 1:
            below = below._replace(axis=None, extents=(below.extents[int(indices.value.data.item())],))
        else:
            below = None
    return [Bounded(value, extents, not indices.extents and x.clean, below)]


@follows("gather_elements")
def gather_elements(g: Bounds, node: Node) -> list[Bounded]:
    x, indices = g.take(node.x), g.take(node.inputs[1])
    axis = attr(node, "axis") % len(x.dims)
    for a, n in x.extents.items():
        refuse(a != axis and not same(n, indices.extents.get(a)))
    value = g.again(node, x.value, indices_within(g, x, indices, [axis]))[0]
    return [Bounded(value, indices.extents, False, None)]


@follows("gather_nd")
def gather_nd(g: Bounds, node: Node) -> list[Bounded]:
    x, indices = g.take(node.x), g.take(node.inputs[1])
    last = len(indices.dims) - 1
    refuse(attr(node, "batch_dims") or last in indices.extents)
    depth = indices.value.type.dims[last]
    value = g.again(node, x.value, indices_within(g, x, indices, range(depth), last))[0]
    extents = {a - depth + last: n for a, n in x.extents.items() if a >= depth} | dict(indices.extents)
    below = x.below if x.below is not None and x.below.axis is None else None
    return [Bounded(value, extents, False, below)]


@follows("roi_align")
def roi_align(g: Bounds, node: Node) -> list[Bounded]:
    """Each region on its own; those that are not real are of no extent, in the first image."""
    x, (rois, images) = g.fixed(node.x), (g.take(v) for v in node.inputs[1:])
    refuse(attr(node, "sampling_ratio") < 1 or rois.extents.keys() - {0} or rois.dims[0] != images.dims[0])
    y = g.again(node, x, g.masked(rois, 0), indices_within(g, Bounded(x), images, [0]))[0]
    return [Bounded(y, rois.extents)]


@follows("scatter_elements", "scatter_nd")
def scatter(g: Bounds, node: Node) -> list[Bounded]:
    """The result has one more row, to which updates beyond the count are written."""
    data, indices, updates = (g.take(v) for v in node.inputs)
    each = node.op == "scatter_elements"
    last = len(indices.dims) - 1
    depth = 1 if each else indices.value.type.dims[last]
    axis = attr(node, "axis") % len(data.dims) if each else 0
    axes = [axis] if each else range(depth)
    refuse(not depth or not each and last in indices.extents)
    # Of each axis of the updates, which of indices and data says how many there are.
    for a in range(len(updates.dims)):
        found, wanted = updates.extents.get(a), indices.extents.get(a)
        if not each and a >= last:
            wanted = data.extents.get(a - last + depth)
        elif each and a != axis and a in data.extents and not same(data.extents[a], wanted):
            raise Unbounded
        refuse(found is not wanted and not same(found, wanted))
    if not indices.extents:
        within = indices_within(g, data, indices, axes, last)
        return [Bounded(g.again(node, data.value, within, updates.value)[0], data.extents)]
    few = _before_spread(g, indices) if each else indices
    safe = indices_within(g, data, few, axes, None if each else last)
    rows = data.value.type.dims[axis]
    at = _within_or_beyond(g, few._replace(value=safe), [data.value.type.dims[a] for a in axes])
    beyond: Any = rows if each else [rows, *[0] * (depth - 1)]
    at = g.masked(few._replace(value=at), beyond)
    at = at if few is indices else g.broadcast(at, *indices.value.type.dims)
    written = g.again(node, _with_a_row(g, data.value, axis), at, updates.value)[0]
    y = g.cut(written, axis, 0, rows)
    g.memo["with a row", axis, y] = written
    return [Bounded(y, data.extents)]


def _before_spread(g: Bounds, indices: Bounded) -> Bounded:
    """The indices that these are copies of along other axes, if all are real there that are copies of such."""
    few: Bounded = g.memo.get(("spread", indices.value), indices)
    alike = len(few.dims) == len(indices.dims) and few.extents == indices.extents
    return few if alike else indices


def _with_a_row(g: Bounds, data: Value, axis: int) -> Value:
    """What updates that are not real are written to: one more row."""
    wide: Value | None = g.memo.get(("with a row", axis, data))
    if wide is None:
        more = [n if a != axis else 1 for a, n in enumerate(data.type.dims)]
        wide = g.join([data, g.held(np.zeros(more, data.type.dtype))], axis)
    refuse(wide.type.nbytes > g.limit)
    return wide


def _within_or_beyond(g: Bounds, indices: Bounded, dims: Sequence[int]) -> Value:
    """Indices counted from the first element; those out of range point past the extra row."""
    x, dtype = indices.value, indices.value.type.dtype
    if indices.below is not None and not indices.below.signed or dtype is None or dtype.kind == "u":
        return x
    sizes = np.asarray(dims if len(dims) > 1 else dims[0], dtype)
    return _from_front(g, x, sizes, sizes + sizes.dtype.type(1))
