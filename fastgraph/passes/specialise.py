"""Give every value a concrete type for given input shapes, and compute what is constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ..errors import FastgraphError, InputError
from ..ir import Graph, Node, TensorType, Value, subgraphs
from ..ops.evaluate import fold, infer_node
from ..ops.registry import MAX_ELEMENTS

FOLD_LIMIT = 1 << 24
"""Constants of more elements are not made: a file of few bytes may ask for a huge one."""


def specialise(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> None:
    """Set the input shapes, infer every type and fold constants, in place. Unknown shapes stay unknown.

    Given ``y = reshape(x, shape(x))`` and x: f32[2,3]; result ``y = reshape(x, const [2,3])``.
    """
    for value in graph.inputs:
        if value.name in shapes:
            value.type = value.type.with_shape(tuple(int(d) for d in shapes[value.name]))
        if value.type.concrete:
            fits(value, value.type.dims)
    instead: dict[Value, Value] = {}
    nodes = []
    for node in graph.nodes:
        node.inputs = [None if v is None else instead.get(v, v) for v in node.inputs]
        if instead:
            for inner in subgraphs(node):
                inner.replace(instead)
        try:
            infer_node(node)
            folded = None if _stays_stored(node) else fold(node, FOLD_LIMIT)
        except FastgraphError as error:
            raise type(error)(f"{graph.source or graph.name or 'model'}: {error}") from error
        if folded is None:
            nodes.append(node)
            continue
        for value, data in zip(node.outputs, folded, strict=False):
            instead[value] = Value.constant(value.name, data, value.type.quant)
    graph.nodes = nodes
    graph.outputs = [instead.get(v, v) for v in graph.outputs]
    graph.prune()


def _stays_stored(node: Node) -> bool:
    """Whether the node gives a layer's quantised weights: their numbers are what integer kernels want."""
    return node.op == "dequantize_linear" and node.x.type.size > 1


def fits(value: Value, shape: Sequence[int]) -> None:
    """InputError unless `shape` is an instance of the value's declared shape, and one that an array can have."""
    if min(shape, default=0) < 0 or prod(shape) > MAX_ELEMENTS:
        raise InputError(
            f"input {value.name!r} can't have shape {tuple(shape)}: extents are at least 0, "
            f"elements at most {MAX_ELEMENTS}"
        )
    declared = value.type.shape
    if declared is None:
        return
    if len(declared) != len(shape) or any(type(d) is int and d != s for d, s in zip(declared, shape, strict=True)):
        raise InputError(
            f"input {value.name!r} has shape {tuple(shape)}, the model declares {value.type}: feed an array that fits"
        )


def missing_dims(graph: Graph) -> dict[str, TensorType]:
    """The inputs whose shapes are not numbers yet."""
    return {v.name: v.type for v in graph.inputs if not v.type.concrete}
