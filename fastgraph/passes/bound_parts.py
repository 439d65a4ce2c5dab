"""Of bounded values: parts taken and put together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Node, Value
from ..ops.common import axes_of
from ..ops.registry import attr
from .bound_numbers import least
from .bound_values import Below, Bounded, Dim, Extent, Unbounded
from .bounds import Bounds, follows


@follows("slice")
def slice_(bounds: Bounds, node: Node) -> list[Bounded]:
    x, like = bounds.take(node.x), node.out
    starts, ends = (list(bounds.numbers_of(v)) for v in node.inputs[1:3])
    axes = axes_of(node, bounds.ints_of(node, 3) or range(len(starts)), len(x.dims))
    steps = bounds.ints_of(node, 4) or [1] * len(starts)
    extents, plain_ends = dict(x.extents), list(ends)
    below, clean = x.below, x.clean and not any(isinstance(n, Extent) for n in ends)
    for i, axis in enumerate(axes):
        start, end, step = starts[i], ends[i], steps[i]
        if below is not None and axis == below.axis:
            known = step > 0 and not isinstance(start, Extent) and not isinstance(end, Extent)
            below = Below(axis, below.extents[int(start) : int(end) : step]) if known else None
        if axis not in x.extents and not isinstance(end, Extent):
            continue
        if step != 1 or isinstance(start, Extent) or start < 0 or not isinstance(end, Extent) and end < 0:
            raise Unbounded
        size, have = x.value.type.dims[axis], x.dims[axis]
        stop = least(bounds, have, end, like)
        plain_ends[i] = min(stop.most if isinstance(stop, Extent) else int(stop), size)
        kept = stop if start == 0 else _minus(bounds, stop, int(start), like)
        extents.pop(axis, None)
        if isinstance(kept, Extent):
            extents[axis] = kept
    cut = [bounds.whole([int(n) for n in numbers], like) for numbers in (starts, plain_ends, axes, steps)]
    value = bounds.add("slice", [x.value, *cut], like)
    if any(value.type.dims[a] != n.most for a, n in extents.items()):
        raise Unbounded
    return [Bounded(value, extents, clean, below)]


def _minus(bounds: Bounds, a: Dim, n: int, like: Value) -> Dim:
    """What is left of an extent without its first n."""
    if not isinstance(a, Extent):
        return max(a - n, 0)
    left = bounds.add("sub", [a.count, bounds.whole(n, like)], like)
    return Extent(bounds.add("max", [left, bounds.whole(0, like)], like), max(a.most - n, 0))


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
