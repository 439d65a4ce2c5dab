"""Values whose extents depend on data, planned at the greatest that they may have.

Such a value becomes one of a known shape, and a number for each axis that depends on data: how many of the elements
along it there are. What lies beyond is whatever came out, and nobody may be harmed by it: indices are cleaned before
they are used, reductions and products leave it out, and what a run gives is cut to what there is.

Given ``y = relu(gather(x, non_zero(m)))`` of m: bool[8]; result ``p, n = bounded_non_zero(m); y = relu(gather(x, p))``,
of which the first n rows are real. What no rule knows stays as it is, and reads what there is.
"""

from __future__ import annotations

from ...ir import Graph, Value
from .state import Bounds
from .values import Bounded
from .visit import visit


def bounded(graph: Graph) -> dict[Value, Bounded]:
    """Let nodes of known shapes stand for those of the graph, as far as it is known how; and what stands for values
    whose shapes depend on data.
    """
    g = Bounds(graph)
    with g:
        for node in graph.nodes:
            visit(g, node)
        for value in graph.results():
            g.written(value)
    graph.nodes = g.nodes
    graph.replace(g.instead)
    return {v: found for v, found in g.known.items() if found.extents}
