"""Deep copies of graphs."""

from __future__ import annotations

from typing import Any

from .graph import Graph, Node, State, Value


def copy(graph: Graph) -> Graph:
    """A deep copy that shares the constants' arrays. Values of outer scopes stay what they are."""
    return _copy(graph, {})


def _copy(graph: Graph, seen: dict[Value, Value]) -> Graph:
    def twin(value: Value, own: bool = False) -> Value:
        if value not in seen:
            if not own and value.data is None:
                return value
            seen[value] = Value(value.name, value.type, value.data)
        return seen[value]

    def attr(item: Any) -> Any:
        if isinstance(item, Graph):
            return _copy(item, seen)
        if isinstance(item, list | tuple) and any(isinstance(x, Graph) for x in item):
            return type(item)(attr(x) for x in item)
        return item

    inputs = [twin(v, own=True) for v in graph.inputs]
    first = [twin(state.input, own=True) for state in graph.states]
    nodes = []
    for node in graph.nodes:
        reads = [v if v is None else seen[v] if v in seen else twin(v) for v in node.inputs]
        attrs = {key: attr(item) for key, item in node.attrs.items()} if node.graphs else dict(node.attrs)
        nodes.append(Node(node.op, reads, [twin(v, own=True) for v in node.outputs], attrs, node.name))
    states = [State(v, twin(s.output), s.initial) for v, s in zip(first, graph.states, strict=True)]
    outputs = [twin(v) for v in graph.outputs]
    made = Graph(graph.name, inputs, outputs, nodes, graph.source, states, dict(graph.usual))
    made.interface, made.limits, made.precision = graph.interface, graph.limits, graph.precision
    made.stored = graph.stored
    return made
