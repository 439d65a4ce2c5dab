"""Nodes of control flow with bodies of their own, which can be changed."""

from __future__ import annotations

from ..ir import Graph, Node, copy


def inner(node: Node) -> Node | None:
    """The node with copies of its bodies; None for operators whose bodies have no steps of their own."""
    if node.op != "if":
        return None
    attrs = {key: copy(item) if isinstance(item, Graph) else item for key, item in node.attrs.items()}
    return Node(node.op, list(node.inputs), node.outputs, attrs, node.name)
