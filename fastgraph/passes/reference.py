"""The reference of an operator without one of its own: its decomposition, computed by references."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..ir import Graph, Node, TensorType, Value
from ..ops.evaluate import evaluate, infer_node
from ..ops.registry import OPS
from ..rules.sweep import sweep
from .decompose import decompose

HALF = np.dtype(np.float16)


def by_rules(node: Node, arrays: list[Any]) -> list[Any]:
    """The node's results for these operands (None where they are absent), computed by the references of the nodes that
    its decomposition writes, float16 in float32. UnsupportedError where no rule takes it. Rules of the phase
    "reference" are for this alone. To rules, single numbers and what decides shapes are constants.
    """
    alone = _over_inputs(node, arrays)
    kinds = [v.type for v in alone.outputs]
    if all(kind.concrete and not kind.size for kind in kinds):
        return [np.zeros(kind.dims, kind.dtype) for kind in kinds]
    if any(v is not None and v.type.dtype == HALF for v in alone.inputs):
        arrays = [a if a is None or a.dtype != HALF else a.astype(np.float32) for a in arrays]
        alone = _over_inputs(node, arrays)
    feeds = [v for v in alone.inputs if v is not None and v.data is None]
    graph = Graph("reference", feeds, list(alone.outputs), [alone])
    sweep(graph, "reference")
    decompose(graph)
    if any(each.op == node.op for each in graph.nodes):
        raise UnsupportedError(f"{node.op} of {', '.join(str(v.type) for v in feeds)}")
    results = evaluate(graph, {f"x{i}": array for i, array in enumerate(arrays)})
    return [y.astype(HALF) if kind.dtype == HALF else y for y, kind in zip(results, kinds, strict=True)]


def _over_inputs(node: Node, arrays: list[Any]) -> Node:
    """The node over inputs that stand for these arrays."""
    parameters = OPS[node.op].shaped_by
    inputs: list[Value | None] = []
    for i, array in enumerate(arrays):
        given = node.input(i)
        if array is None:
            inputs.append(None)
        elif (given is not None and given.data is not None) or i in parameters or np.size(array) == 1:
            inputs.append(Value.constant(f"x{i}", np.asarray(array)))
        else:
            inputs.append(Value(f"x{i}", TensorType.of(np.asarray(array))))
    alone = node.with_(inputs, [Value(v.name) for v in node.outputs])
    infer_node(alone)
    return alone
