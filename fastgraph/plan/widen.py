"""The last stage: quantized nodes that only f32 kernels can compute get changes of quantization around them."""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node, TensorType, Value
from ..ir.weights import once
from ..limits import current
from ..ops.evaluate import computes_reals, only_result
from .lower import Matches

F32 = np.dtype(np.float32)


def widen(graph: Graph, match: Matches | None = None) -> bool:
    """Given ``y = lrn(x)`` in uint8; result ``y = requantize(lrn(requantize(x)))``, if there is a kernel for that.

    What `match` finds here holds for the plan, too: the nodes of the result don't change any more.
    """
    match = match or Matches()
    nodes: list[Node] = []
    reals: dict[Value, Value] = {}
    for node in graph.nodes:
        wide = _wide(node, reals, match) if computes_reals(node) and match(node) is None else None
        if wide is None:
            nodes.append(node)
            continue
        for value, real in zip(node.inputs, wide.inputs, strict=True):
            new = real is not value and value not in reals
            if new and value is not None and real is not None and real.data is None:
                reals[value] = real
                nodes.append(Node("requantize", [value], [real], {}, node.name))
        nodes.append(wide)
        for value, real in zip(node.outputs, wide.outputs, strict=True):
            if real is not value:
                nodes.append(Node("requantize", [real], [value], {}, node.name))
    changed = nodes != graph.nodes
    graph.nodes = nodes
    return changed


def _wide(node: Node, reals: dict[Value, Value], match: Matches) -> Node | None:
    """The node on reals, if a kernel takes it; None for changes of quantization, and for nodes that round otherwise."""
    if node.op == "requantize" or node.attrs.get("ties") is not None:
        return None
    stored = {v for v in node.inputs if v is not None and v.type.quant is not None}
    own = {v: reals.get(v) or _real(v) for v in stored}
    inputs = [v if v is None else own.get(v, v) for v in node.inputs]
    outputs = [v if v.type.quant is None else _real(v) for v in node.outputs]
    wide = Node(node.op, inputs, outputs, node.attrs, node.name)
    return wide if match(wide) is not None else None


def _real(value: Value) -> Value:
    real = Value(f"{value.name}.real", TensorType(F32, value.type.shape))
    if value.data is None:
        return real
    current().hold(real.type.nbytes, real.name)
    node = Node("requantize", [value], [real])
    return Value.constant(real.name, once(only_result, node, (value.data,)))
