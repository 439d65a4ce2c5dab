"""Bytes without sign: activations of 8 bits as uint8, which is what kernels for integers take."""

from __future__ import annotations

import numpy as np

from ...ir import Graph, Quantization, TensorType, Value
from ...ir.build import constant
from ...ir.weights import once
from ...ops.registry import OPS, Quant
from ...rules.sweep import Sweep, note


def unsigned(graph: Graph) -> None:
    """Every activation of int8 becomes uint8 with a zero point greater by 128; weights of uint8 become int8.

    Inputs and results of the graph, and of operators that look at stored numbers, stay what they are.
    """
    g = Sweep(graph)
    now: dict[Value, Value] = {}

    def read(value: Value | None) -> Value | None:
        if value is None or value not in now and not _signed_activation(value):
            return value
        if value not in now:
            now[value] = g.requantize(value, _shifted(value.type, 128, np.uint8))
        return now[value]

    for node in graph.nodes:
        g.node = node
        if OPS[node.op].quant is Quant.STORED or node.graphs:
            g.keep(node)
            continue
        inputs: list[Value | None] = []
        weights = OPS[node.op].weights if OPS[node.op].quant is Quant.INTEGERS else None
        for i, value in enumerate(node.inputs):
            inputs.append(_weights(value) if i == weights else read(value))
        outputs = [Value(v.name, _shifted(v.type, 128, np.uint8)) if _signed_activation(v) else v for v in node.outputs]
        g.write(node.with_(inputs, outputs))
        for old, new in zip(node.outputs, outputs, strict=True):
            if old is not new:
                now[old] = new
                note(old, new, lambda array: (array ^ np.uint8(128)).view(np.int8))
                g.into(old, "requantize", new)
    graph.nodes = g.written()
    graph.prune()


def _signed_activation(value: Value) -> bool:
    quant = value.type.quant
    return value.type.dtype == np.int8 and quant is not None and quant.axis is None and value.type.concrete


def _weights(value: Value | None) -> Value | None:
    """Weights of uint8 as int8, which mean the same."""
    if value is None or value.data is None or value.type.quant is None or value.type.dtype != np.uint8:
        return value
    type_ = _shifted(value.type, -128, np.int8)
    return constant(value, once(_less_128, value.data), "int8", type_.quant)


def _less_128(data: np.ndarray) -> np.ndarray:
    return (data ^ np.uint8(128)).view(np.int8)


def _shifted(type_: TensorType, by: int, dtype: type) -> TensorType:
    assert type_.quant is not None
    zeros = tuple(z + by for z in type_.quant.zero_point)
    return TensorType(np.dtype(dtype), type_.shape, Quantization(type_.quant.scale, zeros, type_.quant.axis))
