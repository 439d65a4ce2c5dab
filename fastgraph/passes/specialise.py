"""Give every value a concrete type for given input shapes, and compute what is constant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import FastgraphError, InputError, ModelError
from ..ir import Graph, Node, TensorType, Value, captured, subgraphs
from ..ops import OPS

FOLD_LIMIT = 1 << 26
"""Constants above this many bytes are not made: a file of few bytes may ask for a huge one."""


def specialise(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> None:
    """Set the input shapes, infer every type and fold constants, in place. Unknown shapes stay unknown.

    Given ``y = reshape(x, shape(x))`` and x: f32[2,3]; result ``y = reshape(x, const [2,3])``.
    """
    for value in graph.inputs:
        if value.name in shapes:
            value.type = value.type.with_shape(tuple(int(d) for d in shapes[value.name]))
    instead: dict[Value, Value] = {}
    nodes = []
    for node in graph.nodes:
        node.inputs = [None if v is None else instead.get(v, v) for v in node.inputs]
        for inner in subgraphs(node):
            for value in captured(inner):
                if value in instead:
                    inner.replace(value, instead[value])
        infer(graph, node)
        folded = fold(graph, node)
        if folded is None:
            nodes.append(node)
            continue
        for value, data in zip(node.outputs, folded, strict=False):
            instead[value] = Value.constant(value.name, data)
    graph.nodes = nodes
    graph.outputs = [instead.get(v, v) for v in graph.outputs]
    graph.prune()


def infer(graph: Graph, node: Node) -> None:
    """Set the types of the node's outputs; ModelError names the node when its inputs don't fit."""
    try:
        types = OPS[node.op].infer(node, [None if v is None else v.type for v in node.inputs])
    except FastgraphError as error:
        raise type(error)(f"{where(graph, node)}: {error}") from None
    except Exception as error:
        raise ModelError(f"{where(graph, node)}: inputs of types {_types(node)} don't fit ({error})") from error
    for value, type_ in zip(node.outputs, types, strict=False):
        value.type = type_


def fold(graph: Graph, node: Node) -> list[np.ndarray] | None:
    """The node's outputs as arrays when they hang on constants (or on shapes) only, else None."""
    if node.op == "shape" and node.x.type.concrete:
        dims = node.x.type.dims
        return [np.array(dims, np.int64)[slice(node.attrs.get("start", 0), node.attrs.get("end"))]]
    if node.op == "size" and node.x.type.concrete:
        return [np.array(node.x.type.size, np.int64)]
    op = OPS[node.op]
    if not op.pure or any(v is not None and v.data is None for v in node.inputs) or any(subgraphs(node)):
        return None
    if any(v.type.dtype is None or (v.type.concrete and v.type.nbytes > FOLD_LIMIT) for v in node.outputs):
        return None
    try:
        with np.errstate(all="ignore"):
            arrays = op.reference(node, [None if v is None else v.data for v in node.inputs])
    except FastgraphError as error:
        raise type(error)(f"{where(graph, node)}: {error}") from None
    except Exception as error:
        raise ModelError(f"{where(graph, node)}: can't be computed from its constants ({error})") from error
    if not all(isinstance(array, np.ndarray | np.generic) for array in arrays):
        return None
    return [np.asarray(array) for array in arrays]


def where(graph: Graph, node: Node) -> str:
    """File, node and operator, for messages."""
    return f"{graph.source or graph.name or 'graph'}: node {node.name or node.out.name!r} ({node.op})"


def missing_dims(graph: Graph) -> dict[str, TensorType]:
    """The inputs whose shapes are not numbers yet."""
    return {v.name: v.type for v in graph.inputs if not v.type.concrete}


def fits(value: Value, shape: Sequence[int]) -> None:
    """InputError unless `shape` is an instance of the value's declared shape."""
    declared = value.type.shape
    if declared is None:
        return
    if len(declared) != len(shape) or any(type(d) is int and d != s for d, s in zip(declared, shape, strict=True)):
        raise InputError(
            f"input {value.name!r} has shape {tuple(shape)}, the model declares {value.type}: feed an array that fits"
        )


def _types(node: Node) -> str:
    return ", ".join("absent" if v is None else str(v.type) for v in node.inputs)
