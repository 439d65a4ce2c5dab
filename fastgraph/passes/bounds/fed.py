"""Inputs with open extents as bounded values: a caller feeds how long they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...ir import LENGTH, Graph, Node, Open, TensorType, Value, open_axes
from .lengths import dim_by_length
from .state import Bounds
from .values import Bounded, Dim, Extent

ROOM = 64 << 20
"""Bytes of a value whose extents follow from open ones."""


def fed(g: Bounds, graph: Graph, shapes: Mapping[str, Sequence[int | Open]]) -> None:
    """Give inputs with open extents room for the greatest, and add the input that says how long they are.

    Given ``x: f32[2,Open(33, 64, 1)]``; result ``x: f32[2,64]``, ``n: i64[]``, of n + 1 real columns; others are 0.
    """
    common = [(d.most - d.more, d.least - d.more) for shape in shapes.values() for _, d in open_axes(shape)]
    if not common or not graph.nodes:
        return
    length = Value(LENGTH, TensorType(np.dtype(np.int64), ()))
    greatest, least = common[0]
    g.length, g.lengths, g.node, g.limit = length, np.arange(least, greatest + 1), graph.nodes[0], ROOM
    g.ready(length)
    for at, value in enumerate(graph.inputs):
        shape = shapes.get(value.name, ())
        dims: list[Dim] = [dim_by_length(g, g.lengths + d.more) if isinstance(d, Open) else d for d in shape]
        if any(isinstance(d, Open) for d in shape):
            most = tuple(d.most if isinstance(d, Extent) else d for d in dims)
            graph.inputs[at] = room = Value(value.name, value.type.with_shape(most))
            g.ready(room)
            g.rooms[room] = graph
            g.known[value] = Bounded(room, {a: d for a, d in enumerate(dims) if isinstance(d, Extent)}, clean=True)
    graph.inputs.append(length)


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
