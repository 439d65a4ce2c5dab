"""Of bounded values: split and concat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Node, Value
from ..ops.registry import attr
from .bound_state import Bounds, follows
from .bound_values import Below, Bounded, Dim, Extent, Unbounded


@follows("split")
def split(bounds: Bounds, node: Node) -> list[Bounded]:
    x, sizes = bounds.take(node.x), bounds.ints_of(node, 1)
    axis = attr(node, "axis") % len(x.dims)
    if axis in x.extents:
        raise Unbounded
    inputs: list[Value | None] = [x.value, bounds.whole(sizes, node.out)] if sizes is not None else [x.value]
    parts, at, found = bounds.again(node, inputs), 0, []
    for part in parts:
        below, n = x.below, part.type.dims[axis]
        if below is not None and below.axis == axis:
            below = Below(axis, below.extents[at : at + n])
        found.append(Bounded(part, x.extents, x.clean, below))
        at += n
    return found


@follows("concat")
def concat(bounds: Bounds, node: Node) -> list[Bounded]:
    parts = [bounds.take(v) for v in node.inputs]
    rank = len(parts[0].dims)
    axis = attr(node, "axis") % rank
    for a in range(rank):
        counts = {n.count if isinstance(n := p.dims[a], Extent) else n for p in parts}
        if a != axis and len(counts) > 1:
            raise Unbounded
    value = bounds.add("concat", [p.value for p in parts], node.out, axis=axis)
    extents = {a: n for a, n in parts[0].extents.items() if a != axis}
    sizes: list[Dim] = [p.dims[axis] for p in parts]
    clean = all(p.clean or not p.extents for p in parts)
    if not any(isinstance(n, Extent) for n in sizes):
        return [Bounded(value, extents, clean)]
    places, count = joined(bounds, sizes, node.out)
    return [Bounded(bounds.add("gather", [value, places], node.out, axis=axis), {**extents, axis: count})]


def joined(bounds: Bounds, sizes: Sequence[Dim], like: Value) -> tuple[Value, Extent]:
    """Where the real elements of parts are, that lie one after the other; zeros follow. And how many there are."""
    room = [n.most if isinstance(n, Extent) else n for n in sizes]
    counts = np.empty(len(sizes), object)
    counts[:] = sizes
    real = bounds.stacked(Value("counts", bounds.whole([0], like).type), counts)
    own = bounds.whole(np.concatenate([np.arange(n) for n in room]), like)
    part = bounds.whole(np.repeat(np.arange(len(room)), room), like)
    limits = bounds.add("gather", [real, part], like, axis=0)
    places, count = bounds.found(bounds.add("less", [own, limits], like), like)
    return bounds.shaped(places, (sum(room),), like), count
