"""Copies of control flow nodes, whose bodies may then be changed."""

from __future__ import annotations

import numpy as np

from ..errors import UnsupportedError
from ..ir import Graph, Node, Value, captured, copy
from ..ops.control import REFUSED, unchanged
from ..ops.evaluate import infer_node, op_of
from ..ops.registry import attr
from ..rules.sweep import sweep
from .bounds import bounded
from .dynamic import is_dynamic


def always_taken(node: Node, instead: dict[Value, Value]) -> list[Node] | None:
    """The nodes of the branch that an `if` of a constant condition takes, which make its results; None for others.

    Results that no node of the branch makes are put into `instead`.
    """
    condition = node.const(0) if node.op == "if" else None
    if condition is None or not condition.size:
        return None
    branch = attr(node, "then_branch" if condition.reshape(-1)[0] else "else_branch")
    makers = branch.producers()
    made = {v: out for v, out in zip(branch.outputs, node.outputs, strict=True) if v in makers}
    if len(made) < sum(v in makers for v in branch.outputs):
        return None  # one value by two names
    instead.update({out: v for v, out in zip(branch.outputs, node.outputs, strict=True) if v not in makers})
    branch.replace(made)
    for v, out in made.items():
        out.type = v.type
        makers[v].outputs = [out if each is v else each for each in makers[v].outputs]
    return branch.nodes


def sound_bodies(node: Node) -> list[Graph]:
    """The bodies of a node without those that are invalid for its operands."""
    refused = node.attrs.get(REFUSED, {})
    return [item for key, item in node.attrs.items() if isinstance(item, Graph) and key not in refused]


def inner(node: Node) -> Node | None:
    """The node with copies of its bodies; None for operators whose bodies have no steps of their own."""
    if node.op not in ("if", "loop", "scan"):
        return None
    attrs = {key: copy(item) if isinstance(item, Graph) else item for key, item in node.attrs.items()}
    found = node.with_(list(node.inputs), attrs=attrs)
    if node.op != "if":
        lead = 2 if node.op == "loop" else 0
        _capture_invariants(attrs["body"], found, lead)
    return found


def _capture_invariants(body: Graph, node: Node, lead: int) -> None:
    """Let a body capture carried values that never change, and take its condition for true in every round."""
    instead = {}
    if lead:
        condition = body.inputs[1]
        dims = condition.type.dims if condition.type.concrete else ()
        instead[condition] = Value.constant(condition.name, np.ones(dims, bool))
    for inside, first, after in zip(body.inputs[lead:], node.inputs[lead:], body.outputs[lead // 2 :], strict=False):
        if unchanged(body, after) is inside and first is not None and first.type == inside.type:
            instead[inside] = first
    body.replace(instead)


def settle(body: Graph) -> None:
    """Write the nodes of a body whose shapes depend on data by nodes of known shapes. UnsupportedError where there are
    none for one of them."""
    if not is_dynamic(body):
        return
    _pull(body)
    _sink(body)
    if sweep(body, "rows") and not is_dynamic(body):
        return
    bounded(body)
    body.prune()
    if is_dynamic(body):
        raise UnsupportedError(f"{body.name}: shapes depend on data")


def _pull(body: Graph) -> None:
    """Move the only reader of a branch's result whose shape depends on data into the branches.

    Given ``y = if(c) {a} {b}; z = reduce_sum(y, 0)``; result ``z = if(c) {reduce_sum(a, 0)} {reduce_sum(b, 0)}``.
    """
    makers, uses = body.producers(), body.uses()
    for at, node in enumerate(body.nodes):
        source = makers.get(node.inputs[0]) if node.inputs and node.inputs[0] is not None else None
        if source is None or source.op != "if" or len(source.outputs) != 1 or source.attrs.get(REFUSED):
            continue
        result = source.outputs[0]
        alone = uses[result] == [node] and node.inputs.count(result) == 1 and result not in body.outputs
        if result.type.concrete or not alone or node.graphs or len(node.outputs) != 1 or not op_of(node).pure:
            continue
        for branch in source.graphs:
            out = Value(node.out.name, node.out.type)
            branch.nodes.append(node.with_([branch.outputs[0], *node.inputs[1:]], [out]))
            branch.outputs = [out]
            infer_node(branch.nodes[-1])
        body.nodes[at] = makers[node.out] = source.with_(outputs=[node.out])
    body.prune()


def _sink(body: Graph) -> None:
    """Move nodes whose shapes depend on data into the branches that alone read them."""
    for node in reversed(body.nodes):
        readers = body.uses().get(node.out, [])
        into = [graph for reader in readers for graph in reader.graphs if node.out in captured(graph)]
        directly = node.out in body.outputs or any(r.op != "if" or node.out in r.inputs for r in readers)
        if directly or node.out.type.concrete or len(node.outputs) > 1 or node.graphs or not op_of(node).pure:
            continue
        for graph in into:
            twin = Value(node.out.name, node.out.type)
            graph.replace({node.out: twin})
            graph.nodes.insert(0, node.with_(outputs=[twin]))
    body.prune()
