"""Inputs with open extents as bounded values: further inputs say how long they are in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...ir import LENGTHS, Graph, Node, Open, TensorType, Value, open_axes
from .lengths import Group, dim_by_length
from .state import Bounds
from .values import Bounded, Dim, Extent

Shapes = Mapping[str, Sequence[int | Open]]

ROOM = 64 << 20
"""Bytes of a value whose extents follow from open ones."""


def fed(g: Bounds, graph: Graph, shapes: Shapes, values: Shapes) -> None:
    """Give inputs with open extents room for the greatest, and add inputs that say how long they are. `values`: what
    inputs hold that decide shapes, where some of these numbers are open.

    Given ``x: f32[2,Open(33, 64, 1)]``; result ``x: f32[2,64]``, ``n: i64[]``, of n + 1 real columns; others are 0.
    """
    open_ = {d.group: d for row in (*shapes.values(), *values.values()) for _, d in open_axes(row)}
    if not open_ or not graph.nodes:
        return
    g.node, g.limit = graph.nodes[0], ROOM
    for group, each in _grid(open_).items():
        length = Value(LENGTHS[group], TensorType(np.dtype(np.int64), ()))
        g.groups.append(Group(length, each, open_[group].step))
        g.ready(length)
    common = dict(zip(sorted(open_), g.groups, strict=True))

    def extents(row: Sequence[int | Open]) -> list[Dim]:
        return [dim_by_length(g, common[d.group].each + d.more) if isinstance(d, Open) else d for d in row]

    for at, value in enumerate(graph.inputs):
        if value.name in values:
            g.numbers[value] = np.array([None, *extents(values[value.name])], object)[1:].reshape(value.type.dims)
            continue
        shape = shapes.get(value.name, ())
        dims = extents(shape)
        if any(isinstance(d, Open) for d in shape):
            most = tuple(d.most if isinstance(d, Extent) else d for d in dims)
            graph.inputs[at] = room = Value(value.name, value.type.with_shape(most))
            g.ready(room)
            g.rooms[room] = graph
            g.known[value] = Bounded(room, {a: d for a, d in enumerate(dims) if isinstance(d, Extent)}, clean=True)
    graph.inputs += [group.length for group in g.groups]


def _grid(open_: Mapping[int, Open]) -> dict[int, np.ndarray]:
    """The length of each group of open extents, at every point of the grid of all lengths."""
    ranges = [np.arange(d.least - d.more, d.most - d.more + 1, d.step) for _, d in sorted(open_.items())]
    return dict(zip(sorted(open_), [each.ravel() for each in np.meshgrid(*ranges, indexing="ij")], strict=True))


def widened(g: Bounds, room: Value, axis: int, more: int) -> Value | None:
    """An input's room with so many zeros more at the end of an axis; None for other values."""
    graph = g.rooms.pop(room, None)
    if graph is None:
        return None
    dims = list(room.type.dims)
    dims[axis] += more
    wide = Value(room.name, room.type.with_shape(tuple(dims)))
    graph.inputs[graph.inputs.index(room)] = wide
    graph.growing.add(wide)
    g.ready(wide)
    ends = [Value.constant(f"{room.name}.end", np.array([n], np.int64)) for n in (0, dims[axis] - more, axis)]
    g.first.append(Node("slice", [wide, *ends], [room], {}, room.name))
    return wide
