"""Operators rewritten as others: normalizations as reductions and elementwise steps, blocks as transposes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir import Graph, Node, TensorType
from ..rules.sweep import sweep


def decompose(graph: Graph) -> bool:
    """Given ``y = instance_normalization(x, s, b)``; result reduce_mean, sub, mul, sqrt, ... that kernels run."""
    return any([sweep(graph, *phases) for phases in _phases(graph)])


def _phases(graph: Graph) -> Iterator[list[str]]:
    """The phases of each sweep, chosen after the sweep before it."""
    yield ["rare"]
    doubles = any(v.type.dtype == np.float64 for node in graph.nodes for v in node.outputs)
    if doubles:
        yield ["f64"]
    others = any(_is_other(v.type) for node in graph.nodes for v in node.outputs)
    yield ["early", "other_types"] if others else ["early"]
    yield ["masks"]
    opened = [node for node in graph.nodes if _is_open(node)]
    if any(node.x.type.quant is not None for node in opened):
        yield ["stored_weights"]
    yield ["common", "reductions", "open_weights"] if opened else ["common", "reductions"]
    if others:
        yield ["f64_rest", "narrow_types"] if doubles else ["narrow_types"]


def _is_other(kind: TensorType) -> bool:
    return kind.dtype != np.float32 and (kind.quant is None or kind.dtype not in (np.int8, np.uint8))


def _is_open(node: Node) -> bool:
    if node.op not in ("conv", "conv_transpose"):
        return False
    return any(v is not None and (v.data is None or v.type.dtype == np.float64) for v in node.inputs[1:])
