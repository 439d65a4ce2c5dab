"""Cut off the part of a graph that can't be planned: nodes whose shapes depend on data, and their readers."""

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
    """Leave the concrete nodes in `graph`; returns the others as a graph whose inputs are the values that it reads, or
    None.

    `graph` then gives the original outputs that it computes, and these inputs. Inputs that are no tensors belong to the
    rest alone. `bounded` values are given by their replacements.
    """
    bounded = bounded or {}
    graph.inputs, loose = (
        [v for v in graph.inputs if not _is_container(v)],
        {v for v in graph.inputs if _is_container(v)},
    )
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
    """The values without duplicates; bounded ones as their replacements."""
    found: list[Value] = []
    for value in values:
        stands = bounded.get(value)
        found += [value] if stands is None else [stands.value, *(n.count for n in stands.extents.values())]
    return list(dict.fromkeys(found))


def _is_container(value: Value) -> bool:
    """Whether a value is a sequence or an optional."""
    return value.type.dtype is None


def _ready(node: Node, known: set[Value]) -> bool:
    """Whether a node's operands are computed natively and its results are concrete."""
    for value in read_by(node):
        if value.data is None and value not in known:
            return False
    for value in node.outputs:
        if not value.type.concrete:
            return False
    return True
