"""Nodes of control flow with bodies of their own, which can be changed."""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node, Value, copy
from ..ops.control import unchanged


def inner(node: Node) -> Node | None:
    """The node with copies of its bodies; None for operators whose bodies have no steps of their own."""
    if node.op not in ("if", "loop", "scan"):
        return None
    attrs = {key: copy(item) if isinstance(item, Graph) else item for key, item in node.attrs.items()}
    found = Node(node.op, list(node.inputs), node.outputs, attrs, node.name)
    if node.op != "if":
        lead = 2 if node.op == "loop" else 0
        _take_in(attrs["body"], found, lead)
    return found


def _take_in(body: Graph, node: Node, lead: int) -> None:
    """Let a body read what never changes where it comes from, and know that the condition holds in every round."""
    instead = {}
    if lead:
        true = np.ones(body.inputs[1].type.shape or (), bool)
        instead[body.inputs[1]] = Value.constant(body.inputs[1].name, true)
    for inside, first, after in zip(body.inputs[lead:], node.inputs[lead:], body.outputs[lead // 2 :], strict=False):
        if unchanged(body, after) is inside and first is not None and first.type == inside.type:
            instead[inside] = first
    body.replace(instead)
