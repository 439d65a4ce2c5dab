"""Rules for slices of bounded values, and for slices of others at computed ends, bounded by x's extents."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from ...ir import Node, Value
from ...ir.build import Builder
from ...ops.inference import axes_of
from ...ops.registry import attr
from .lengths import by_length, dim_by_length, lines, varies
from .numbers import least, total
from .state import Bounds, follows
from .values import Bounded, Dim, Extent, Unbounded, Varied, most_of, refuse

FAR = 1 << 40
"""An end behind the last element of any axis."""


Number: TypeAlias = Dim | Varied | Value


class Cut(NamedTuple):
    """A slice of one axis. A start or end that is a Value is a scalar that the run computes."""

    axis: int
    start: Number
    end: Number
    step: int


@follows("slice")
def slice_(g: Bounds, node: Node) -> list[Bounded]:
    x = g.take(node.x)
    starts, ends = (_elements(g, v) for v in node.inputs[1:3])
    axes = axes_of(node, g.ints_of(node, 3) or range(len(starts)), len(x.dims))
    steps = g.ints_of(node, 4) or [1] * len(starts)
    for cut in map(Cut, axes, starts, ends, steps):
        x = taken(g, x, cut)
    return [x]


def _elements(g: Bounds, value: Value | None) -> list[Number]:
    """The elements of a vector: numbers and extents where these are known, else scalars that the run computes."""
    try:
        return list(g.varied_of(value).reshape(-1))
    except Unbounded:
        found = g.fixed(value)
    line = g.shape(g.cast(found, np.int64), found.type.size)
    return [g.pick(line, g.ints(i)) for i in range(found.type.size)]


@follows("strided_slice")
def strided_slice(g: Bounds, node: Node) -> list[Bounded]:
    x = g.take(node.x)
    starts, ends = (_elements(g, v) for v in node.inputs[1:3])
    steps = g.ints_of(node, 3) or []
    refuse(attr(node, "ellipsis_mask") or attr(node, "new_axis_mask") or not len(starts) == len(ends) == len(steps))
    gone = []
    for axis, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True)):
        start = 0 if attr(node, "begin_mask") >> axis & 1 else start
        if attr(node, "shrink_axis_mask") >> axis & 1:
            if axis in x.extents or not isinstance(start, int) or not -x.value.type.dims[axis] <= start:
                raise Unbounded
            start %= x.value.type.dims[axis]
            start, end, step = start, start + 1, 1
            gone.append(axis)
        refuse(step < 0)
        end = FAR if attr(node, "end_mask") >> axis & 1 and axis not in gone else end
        x = taken(g, x, Cut(axis, start, end, step))
        refuse(axis in gone and x.value.type.dims[axis] != 1)
    left = [a for a in range(len(x.dims)) if a not in gone]
    value = g.shape(x.value, *(x.value.type.dims[a] for a in left))
    return [Bounded(value, {left.index(a): n for a, n in x.extents.items()}, x.clean)]


def taken(g: Bounds, x: Bounded, cut: Cut) -> Bounded:
    """The elements of x along an axis, from the cut's start to its end."""
    axis, start, end, step = cut
    have = x.dims[axis]
    if varies(have, start, end):
        return _by_length(g, x, cut)
    if isinstance(start, Varied) or isinstance(end, Varied):
        raise Unbounded
    if isinstance(start, Value | Extent) or isinstance(end, Value):
        return _computed(g, x, axis, (start, end), step)
    below, extents, plain = x.below, dict(x.extents), end
    if below is not None and axis == below.axis:
        known = step > 0 and not isinstance(end, Extent)
        below = below._replace(extents=below.extents[int(start) : int(end) : step]) if known else None  # type: ignore
    if isinstance(have, Extent) or isinstance(end, Extent):
        if step != 1 or start < 0 or not isinstance(end, Extent) and end < 0:
            raise Unbounded
        stop = least(g, have, end)
        plain = min(stop.most if isinstance(stop, Extent) else int(stop), x.value.type.dims[axis])
        kept = stop if start == 0 else _without_first(g, stop, int(start))
        extents.pop(axis, None)
        if isinstance(kept, Extent):
            extents[axis] = kept
    value = g.cut(x.value, axis, int(start), int(plain), step)  # type: ignore[arg-type]
    refuse(axis in extents and value.type.dims[axis] != extents[axis].most)
    return Bounded(value, extents, x.clean and not isinstance(end, Extent), below)


def _by_length(g: Bounds, x: Bounded, cut: Cut) -> Bounded:
    """A slice that is known for each length of the inputs, as Python has it; but a start before the axis is clamped to
    its first element.
    """
    axis, *ends, step = cut
    size, start, end = (n.astype(np.int64) for n in lines(g, x.dims[axis], *ends))
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start = np.clip(np.where(start < 0, np.maximum(start + size, 0), start), low, high)
    end = np.clip(np.where(end < 0, end + size, end), low, high)
    each = np.maximum(-((start - end) // step), 0)
    count, first, room = dim_by_length(g, each), by_length(g, np.where(each > 0, start, 0)), x.value.type.dims[axis]
    (most,), below = most_of([count]), x.below
    if isinstance(first, int):
        last = first + step * most
        value = g.cut(x.value, axis, first, last if last >= 0 else -FAR, step)
    else:
        assert isinstance(first, Extent)
        places = first.count + step * np.arange(most)
        value = g.pick(x.value, places if isinstance(count, int) else g.clip(places, 0, room - 1), axis)
    if below is not None and below.axis == axis:
        plain = isinstance(first, int) and isinstance(count, int)
        below = (
            below._replace(extents=below.extents[first : first + step * most : step]) if plain and step > 0 else None
        )
    extents = {a: n for a, n in x.extents.items() if a != axis} | ({axis: count} if isinstance(count, Extent) else {})
    to_end = step == 1 and isinstance(first, int) and bool((start + each >= size).all())
    return Bounded(value, extents, x.clean and (to_end or isinstance(count, int)), below)


def _without_first(g: Bounds, a: Dim, n: int) -> Dim:
    """An extent less n, at least 0."""
    if not isinstance(a, Extent):
        return max(a - n, 0)
    if n <= a.least:
        return total(g, a, -n)
    return Extent(g.max(a.count - n, 0), max(a.most - n, 0), max(a.least - n, 0))


def _computed(g: Bounds, x: Bounded, axis: int, ends: tuple[Dim | Value, Dim | Value], step: int) -> Bounded:
    """A slice with computed ends: a gather from the start on, whose count is end - start."""
    size = x.value.type.dims[axis]
    refuse(step != 1 or axis in x.extents or not size)
    start, end = (clamped_index(g, n, size) for n in ends)
    extents = {**x.extents, axis: Extent(g.max(end - start, 0), size)}
    return Bounded(g.pick(x.value, g.min(np.arange(size) + start, size - 1), axis), extents)


def clamped_index(g: Builder, n: Dim | Value, size: int) -> Value:
    """A start or an end as an index from 0 to `size`; negative ones count from the end."""
    if isinstance(n, Extent):
        place = n.count
    elif isinstance(n, Value):
        place = g.choose(n < 0, n + size, n)
    else:
        return g.number(np.array(min(max(int(n) + (size if n < 0 else 0), 0), size)))
    return g.max(g.min(place, size), 0)
