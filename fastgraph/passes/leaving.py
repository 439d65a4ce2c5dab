"""Results that are no numbers, as scores by label and labels of text: conversions of what a program makes."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..ir import Graph, Node, Value
from ..ops.evaluate import MISFIT, run_node
from ..ops.registry import OPS

_CONVERTING = {"zip_map", "gather", "identity", "reshape", "squeeze", "unsqueeze", "flatten"}


class Leaving(NamedTuple):
    """A result that `nodes` make of a value, one after the other; each reads one value that is no constant."""

    value: Value
    nodes: list[Node]

    def of(self, array: Any) -> Any:
        """The result; nothing in it is the array's memory. ModelError as of `run_node`, without whose checks it takes a
        part of the time.
        """
        for node in self.nodes:
            operands = [v if v is None else array if v.data is None else v.data for v in node.inputs]
            try:
                [array] = OPS[node.op].reference(node, operands)
            except MISFIT:
                [array] = run_node(node, operands)
        return array


def leaving(graph: Graph) -> dict[Value, Leaving]:
    """The outputs of a specialized graph that are conversions; it gives what these read in their place."""
    makers = {v: node for node in graph.nodes for v in node.outputs}
    found: dict[Value, Leaving] = {}
    for output in graph.outputs:
        value = output
        nodes: list[Node] = []
        while value in makers and _converts(makers[value]):
            nodes.insert(0, makers[value])
            value = next(v for v in nodes[0].inputs if v is not None and v.data is None)
        if nodes and _is_number(value) and value.type.concrete and value.type.quant is None:
            found[output] = Leaving(value, nodes)
    graph.outputs = [found[v].value if v in found else v for v in graph.outputs]
    return found


def _converts(node: Node) -> bool:
    """Whether it makes objects of one value."""
    open_ = sum(v is not None and v.data is None for v in node.inputs)
    return node.op in _CONVERTING and open_ == 1 and not _is_number(node.outputs[0])


def _is_number(value: Value) -> bool:
    return value.type.dtype is not None and value.type.dtype.kind != "O"
