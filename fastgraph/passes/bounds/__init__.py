"""Values whose extents depend on data, planned at their upper bounds.

Such a value becomes one of a known shape, with a count for each axis that depends on data: the number of its real
elements. Elements beyond it are arbitrary, and kept from doing harm: indices are cleaned before they are used,
reductions and products mask them out, and results are cut to the count.

Given ``y = relu(gather(x, non_zero(m)))`` of m: bool[8]; result ``p, n = bounded_non_zero(m); y = relu(gather(x, p))``,
of which the first n rows are real.

Nodes that no rule knows stay, and read values cut to the count.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...errors import UnsupportedError
from ...ir import MOST_LENGTH, Graph, Node, Value, read_by
from .open_inputs import Shapes, fed
from .state import Bounds
from .values import Bounded, Unbounded
from .visit import visit

NONE: Shapes = MappingProxyType({})


def bounded(graph: Graph, shapes: Shapes = NONE, values: Shapes = NONE) -> dict[Value, Bounded]:
    """Replace nodes of a graph by nodes of known shapes, where there is a rule; returns the replacements of values
    whose shapes depend on data. `shapes`: of inputs; open extents are read as data, from inputs that are added.
    `values`: what inputs hold, likewise. UnsupportedError where lengths are too large to be followed.
    """
    g = Bounds(graph)
    with g:
        try:
            fed(g, graph, shapes, values)
        except Unbounded:
            raise UnsupportedError(f"extents of {MOST_LENGTH} and more have plans of their own") from None
        for node in graph.nodes:
            visit(g, node)
        for value in graph.results():
            g.written(value)
    graph.nodes = [*g.first, *g.nodes]
    graph.replace(g.instead)
    _drop_unread(graph, g.left)
    return {v: found for v, found in g.known.items() if found.extents}


def _drop_unread(graph: Graph, left: Mapping[Value, Node]) -> None:
    """Drop nodes without a rule whose results others read as the values that these were made of."""
    read: set[Value] = set(graph.results())
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not read.isdisjoint(node.outputs) or not any(v in left for v in node.outputs):
            read.update(read_by(node))
            kept.append(node)
    graph.nodes = kept[::-1]
