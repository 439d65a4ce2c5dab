"""Cut off what can't be planned: nodes whose results' shapes depend on data, and all that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..ir import Graph, Node, Value, captured, read_by

if TYPE_CHECKING:
    from .bounds.values import Bounded


def is_dynamic(graph: Graph) -> bool:
    """Whether a specialized graph has values whose shapes depend on data."""
    return not all(v.type.concrete for node in graph.nodes for v in node.outputs)


def cut_dynamic(graph: Graph, bounded: Mapping[Value, Bounded] | None = None) -> Graph | None:
    """Leave in `graph` what is concrete; the rest as a graph of its own whose inputs are what it needs, or None.

    The left graph gives the original outputs that it can, then the inputs of the rest. Inputs that are no tensors are
    only the rest's. Of values that are `bounded` it gives what stands for them.
    """
    bounded = bounded or {}
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
        graph.outputs = _given(graph.outputs, bounded)
        return None
    known |= bounded.keys()
    tail = Graph(f"{graph.name}.dynamic", [], list(graph.outputs), rest, graph.source)
    tail.inputs = [v for v in captured(tail) if v in known or v in loose]
    graph.nodes = left
    graph.outputs = _given([v for v in (*graph.outputs, *tail.inputs) if v in known], bounded)
    return tail


def _given(values: list[Value], bounded: Mapping[Value, Bounded]) -> list[Value]:
    """Each once, of bounded ones what stands for them."""
    found: list[Value] = []
    for value in values:
        stands = bounded.get(value)
        found += [value] if stands is None else [stands.value, *(n.count for n in stands.extents.values())]
    return list(dict.fromkeys(found))


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
