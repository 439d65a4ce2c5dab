"""Residual sums that become the ends of the layers that make one of their operands."""

from __future__ import annotations

from ...freedoms import free
from ...ir import Graph, Node
from ..storage import Views
from .registry import Emit


def join_sums(e: Emit, graph: Graph) -> None:
    """Let sums be computed with the layer that makes an operand of theirs last, if nothing else reads it and its
    lowering can; finds views anew.
    """
    if not free("residual"):
        return
    uses, makers, outputs = graph.uses(), graph.producers(), {*graph.outputs}
    places = {node: i for i, node in enumerate(graph.nodes)}
    nodes: dict[Node, Node | None] = {}
    for total in filter(_adds_two, graph.nodes):
        sole = [makers[v] for v in total.operands if v in makers and uses[v] == [total] and v not in outputs]
        for layer in sorted(sole, key=places.__getitem__, reverse=True):
            if layer not in nodes and (joined := _joined(e, layer, total)) is not None:
                nodes |= {layer: None, total: joined}
                break
    if nodes:
        graph.nodes = [kept for node in graph.nodes if (kept := nodes.get(node, node)) is not None]
        e.views = Views(graph, e.match.abilities)


def _adds_two(node: Node) -> bool:
    """Whether its chain begins with the sum of its two operands."""
    name, *operands = node.attrs["chain"][0] if node.op == "fused" and node.attrs["chain"] else ("",)
    return name == "add" and set(operands) == {0, 1} and len(set(node.inputs)) == 2 == len(node.operands)


def _joined(e: Emit, layer: Node, total: Node) -> Node | None:
    found = e.match(layer)
    return None if found is None else found[0].joins(e, layer, found[1], total)
