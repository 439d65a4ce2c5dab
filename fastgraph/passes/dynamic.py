"""Cut off what can't be planned: nodes whose results' shapes hang on data, and all that follows from them."""

from __future__ import annotations

from ..ir import Graph, Node, Value, captured, read_by


def cut_dynamic(graph: Graph) -> Graph | None:
    """Leave in `graph` what is concrete; the rest as a graph of its own whose inputs are what it needs, or None.

    The left graph gives the original outputs that it can, then the inputs of the rest. Inputs that are no tensors are
    only the rest's.
    """
    graph.inputs, loose = [v for v in graph.inputs if not _loose(v)], {v for v in graph.inputs if _loose(v)}
    known: set[Value] = set(graph.inputs)
    left: list[Node] = []
    rest: list[Node] = []
    for node in graph.nodes:
        if _ready(node, known):
            left.append(node)
            known.update(node.outputs)
        else:
            rest.append(node)
    if not rest and loose.isdisjoint(graph.outputs):
        return None
    tail = Graph(f"{graph.name}.dynamic", [], list(graph.outputs), rest, graph.source)
    tail.inputs = [v for v in captured(tail) if v in known or v in loose]
    graph.nodes = left
    graph.outputs = list(dict.fromkeys(v for v in (*graph.outputs, *tail.inputs) if v in known))
    return tail


def _loose(value: Value) -> bool:
    """Whether a value is a sequence or an optional."""
    return value.type.dtype is None


def _ready(node: Node, known: set[Value]) -> bool:
    """Whether what a node reads is known, and what it gives is concrete."""
    for value in read_by(node):
        if value.data is None and value not in known:
            return False
    for value in node.outputs:
        if not value.type.concrete:
            return False
    return True
