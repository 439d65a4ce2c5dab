"""Values whose extents depend on data, planned at their upper bounds.

Such a value becomes one of a known shape, with a count for each axis that depends on data: the number of its real
elements. Elements beyond it are arbitrary, and kept from doing harm: indices are cleaned before they are used,
reductions and products mask them out, and results are cut to the count.

Given ``y = relu(gather(x, non_zero(m)))`` of m: bool[8]; result ``p, n = bounded_non_zero(m); y = relu(gather(x, p))``,
of which the first n rows are real.

Nodes that no rule knows stay, and read values cut to the count.
"""

from __future__ import annotations

from ...ir import Graph, Value
from .state import Bounds
from .values import Bounded
from .visit import visit


def bounded(graph: Graph) -> dict[Value, Bounded]:
    """Replace nodes of a graph by nodes of known shapes, where there is a rule; returns the replacements of values
    whose shapes depend on data."""
    g = Bounds(graph)
    with g:
        for node in graph.nodes:
            visit(g, node)
        for value in graph.results():
            g.written(value)
    graph.nodes = g.nodes
    graph.replace(g.instead)
    return {v: found for v, found in g.known.items() if found.extents}
