"""Slices of bounded values; and those of others whose ends depend on data, of at most as many elements as x."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...ir import Node, Value
from ...ops.common import axes_of
from ...ops.registry import attr
from .numbers import least
from .state import Bounds, follows
from .values import Below, Bounded, Dim, Extent, Unbounded

FAR = 1 << 40
"""An end that lies behind every axis."""


class Cut(NamedTuple):
    """What is taken of an axis. Values are scalars that the run computes."""

    axis: int
    start: Dim | Value
    end: Dim | Value
    step: int


@follows("slice")
def slice_(bounds: Bounds, node: Node) -> list[Bounded]:
    x = bounds.take(node.x)
    starts, ends = (_ends(bounds, v) for v in node.inputs[1:3])
    axes = axes_of(node, bounds.ints_of(node, 3) or range(len(starts)), len(x.dims))
    steps = bounds.ints_of(node, 4) or [1] * len(starts)
    for cut in map(Cut, axes, starts, ends, steps):
        x = _taken(bounds, x, cut, node.out)
    return [x]


def _ends(bounds: Bounds, value: Value | None) -> list[Dim | Value]:
    """The numbers of a vector, as far as they are known."""
    try:
        return list(bounds.numbers_of(value).reshape(-1))
    except Unbounded:
        found = bounds.fixed(value)
    assert value is not None
    wide = bounds.add("cast", [found], value, to="int64")
    at = [bounds.whole(i, value) for i in range(found.type.size)]
    return [bounds.add("gather", [bounds.shaped(wide, (len(at),), value), i], value, axis=0) for i in at]


@follows("strided_slice")
def strided_slice(bounds: Bounds, node: Node) -> list[Bounded]:
    x, like = bounds.take(node.x), node.out
    starts, ends = (_ends(bounds, v) for v in node.inputs[1:3])
    steps = bounds.ints_of(node, 3) or []
    if attr(node, "ellipsis_mask") or attr(node, "new_axis_mask") or not len(starts) == len(ends) == len(steps):
        raise Unbounded
    gone = []
    for axis, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True)):
        if attr(node, "shrink_axis_mask") >> axis & 1:
            if axis in x.extents or not isinstance(start, int) or not -x.value.type.dims[axis] <= start:
                raise Unbounded
            start %= x.value.type.dims[axis]
            start, end, step = start, start + 1, 1
            gone.append(axis)
        if step < 0:
            raise Unbounded
        start = 0 if attr(node, "begin_mask") >> axis & 1 and axis not in gone else start
        end = FAR if attr(node, "end_mask") >> axis & 1 and axis not in gone else end
        x = _taken(bounds, x, Cut(axis, start, end, step), like)
        if axis in gone and x.value.type.dims[axis] != 1:
            raise Unbounded
    left = [a for a in range(len(x.dims)) if a not in gone]
    value = bounds.shaped(x.value, (x.value.type.dims[a] for a in left), like)
    return [Bounded(value, {left.index(a): n for a, n in x.extents.items()}, x.clean)]


def _taken(bounds: Bounds, x: Bounded, cut: Cut, like: Value) -> Bounded:
    axis, start, end, step = cut
    if isinstance(start, Value | Extent) or isinstance(end, Value):
        return _computed(bounds, x, cut, like)
    below, extents, have, plain = x.below, dict(x.extents), x.dims[axis], end
    if below is not None and axis == below.axis:
        known = step > 0 and not isinstance(end, Extent)
        below = Below(axis, below.extents[int(start) : int(end) : step]) if known else None  # type: ignore[arg-type]
    if isinstance(have, Extent) or isinstance(end, Extent):
        if step != 1 or start < 0 or not isinstance(end, Extent) and end < 0:
            raise Unbounded
        stop = least(bounds, have, end, like)
        plain = min(stop.most if isinstance(stop, Extent) else int(stop), x.value.type.dims[axis])
        kept = stop if start == 0 else _minus(bounds, stop, int(start), like)
        extents.pop(axis, None)
        if isinstance(kept, Extent):
            extents[axis] = kept
    ends: list[Value | None] = [bounds.whole([int(n)], like) for n in (start, plain, axis, step)]  # type: ignore[arg-type]
    value = bounds.add("slice", [x.value, *ends], like)
    if axis in extents and value.type.dims[axis] != extents[axis].most:
        raise Unbounded
    return Bounded(value, extents, x.clean and not isinstance(end, Extent), below)


def _minus(bounds: Bounds, a: Dim, n: int, like: Value) -> Dim:
    """What is left of an extent without its first n."""
    if not isinstance(a, Extent):
        return max(a - n, 0)
    left = bounds.add("sub", [a.count, bounds.whole(n, like)], like)
    return Extent(bounds.add("max", [left, bounds.whole(0, like)], like), max(a.most - n, 0))


def _computed(bounds: Bounds, x: Bounded, cut: Cut, like: Value) -> Bounded:
    """A gather of the places from the start on, as many as lie before the end."""
    axis, size = cut.axis, x.value.type.dims[cut.axis]
    if cut.step != 1 or axis in x.extents or not size:
        raise Unbounded
    start, end = (_place(bounds, n, size, like) for n in (cut.start, cut.end))
    zero, last = bounds.whole(0, like), bounds.whole(size - 1, like)
    count = bounds.add("max", [bounds.add("sub", [end, start], like), zero], like)
    places = bounds.add("add", [bounds.whole(np.arange(size), like), start], like)
    places = bounds.add("min", [places, last], like)
    value = bounds.add("gather", [x.value, places], like, axis=axis)
    return Bounded(value, {**x.extents, axis: Extent(count, size)})


def _place(bounds: Bounds, n: Dim | Value, size: int, like: Value) -> Value:
    """A start or an end, from 0 to `size`; below 0 it counts from behind."""
    zero, most = bounds.whole(0, like), bounds.whole(size, like)
    if isinstance(n, Extent):
        place = n.count
    elif isinstance(n, Value):
        back = bounds.add("less", [n, zero], like)
        place = bounds.add("where", [back, bounds.add("add", [n, most], like), n], like)
    else:
        return bounds.whole(min(max(int(n) + (size if n < 0 else 0), 0), size), like)
    return bounds.add("max", [bounds.add("min", [place, most], like), zero], like)
