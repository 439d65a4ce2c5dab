"""Signs of bytes: activations within a graph become uint8, which integer kernels take."""

from __future__ import annotations

import numpy as np

from ...ir import Graph, Node, Quantization, TensorType, Value
from ...ir.build import constant
from ...ir.weights import once
from ...ops.evaluate import computes_reals
from ...ops.reals import flips
from ...ops.registry import OPS, Quant
from ...rules.rule import rule
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
            fixed = i == weights and value is not None and value.data is not None
            inputs.append(_weights(value) if fixed else read(value))
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
    """uint8 weights as int8 of the same reals."""
    if value is None or value.data is None or value.type.quant is None or value.type.dtype != np.uint8:
        return value
    type_ = _shifted(value.type, -128, np.int8)
    return constant(value, once(_less_128, value.data), "int8", type_.quant)


def _less_128(data: np.ndarray) -> np.ndarray:
    return (data ^ np.uint8(128)).view(np.int8)


def _shifted(type_: TensorType, by: int, dtype: type) -> TensorType:
    scale, zeros, axis = type_.quantization
    return TensorType(np.dtype(dtype), type_.shape, Quantization(scale, tuple(z + by for z in zeros), axis))


ELEMENTWISE = frozenset({"fused", "requantize"})
"""Operators whose kernels read signed and unsigned bytes."""


@rule("signs", *ELEMENTWISE, "dense", quantized=True)
def reads_signed(g: Sweep, node: Node) -> bool:
    """Given ``y = dense(requantize(x), w)`` of one row, x int8 and its result the same reals in uint8; result ``y =
    dense(x, w)``."""
    places = range(len(node.inputs)) if node.op in ELEMENTWISE else range(1) if _is_row(node) else ()
    inputs = list(node.inputs)
    for i in places:
        maker = g.made_by(inputs[i], "requantize")
        if maker is not None and maker.out.type.dtype == np.uint8 and flips(maker.x.type, maker.out.type):
            inputs[i] = maker.x
    return any(old is not new for old, new in zip(node.inputs, inputs, strict=True)) and g.again(node, inputs)


@rule("signs", "requantize", quantized=True)
def writes_signed(g: Sweep, node: Node) -> bool:
    """Given ``y = requantize(dense(x, w))``, y int8 of the same reals as the uint8 layer; result ``y = dense(x, w)``,
    int8."""
    if node.out.type.dtype != np.int8 or not flips(node.x.type, node.out.type):
        return False
    maker = g.sole_maker(node.x)
    if maker is None or not _writes_signed(maker):
        return False
    g.drop(maker)
    return g.again(maker)


def _is_row(node: Node) -> bool:
    """Whether it is a layer of constant weights with a single row of results."""
    weights = node.inputs[1] if node.op == "dense" else None
    return weights is not None and weights.data is not None and node.out.type.size == node.out.type.dims[-1]


def _writes_signed(node: Node) -> bool:
    if OPS[node.op].quant is Quant.REALS:
        return computes_reals(node) and len(node.outputs) == 1
    weights = node.input(1)
    constant = weights is not None and weights.data is not None
    return constant and (node.op == "dense" or node.op == "conv" and node.attrs["groups"] == 1)
