"""Every change of quantisation becomes an operator of its own, `requantize`; what only moves data keeps what it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Graph, Node, Quantization, TensorType, Value
from ..limits import current
from ..ops.evaluate import computes_reals, run_node
from ..ops.reals import to_real, to_stored
from .canonicalise import permutation, turn
from .integer_product import integer_product
from .rewrite import Sweep, also_quantised, sweep

INTEGERS = frozenset(map(np.dtype, ("int8", "uint8", "int16", "int32")))

LINEAR = frozenset({"quantize_linear", "dequantize_linear", "dynamic_quantize_linear"})
"""ONNX's own changes of quantisation."""

MOVES = frozenset({
    "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "slice", "split", "gather", "gather_nd", "expand",
    "tile", "identity", "depth_to_space", "space_to_depth", "reverse_sequence", "reverse", "pad", "max_pool", "concat",
})  # fmt: skip
"""Operators whose results are among their operands' elements."""


def requantise(graph: Graph) -> None:
    """Given ``y = reshape(x)`` of another scale; result ``y = requantize(reshape(x))``. ONNX's linear operators too."""
    if not any(node.op in LINEAR or computes_reals(node) for node in graph.nodes):
        return
    sweep(graph, linear, integer_product)
    sweep(graph, turned_constant, moved, padded)


def linear_quant(node: Node, scale: Any, zero: Any) -> Quantization | None:
    """The quantisation of a quantize_linear or dequantize_linear node, if one of ours says the same."""
    if scale is None or node.attrs.get("block_size", 0) or node.attrs.get("format", "") or scale.dtype.kind != "f":
        return None
    # Any scale may be divided by; a quantisation has positive ones.
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        return None
    scales = tuple(float(s) for s in scale.ravel())
    zeros = (0,) * len(scales) if zero is None else tuple(int(z) for z in zero.ravel())
    if len(scales) == 1:
        return Quantization(scales, zeros[:1])
    rank = len(node.x.type.shape or ())
    axis = int(node.attrs.get("axis", 1)) % rank if rank else 0
    return Quantization(scales, zeros, axis) if len(scales) == len(zeros) else None


def linear(state: Sweep, node: Node) -> bool:
    """quantize_linear and dequantize_linear with constant parameters, as changes of quantisation.

    Given ``y = dequantize_linear(quantize_linear(x, s, z), s, z)``; result ``y = requantize(requantize(x))``.
    """
    if node.op not in ("quantize_linear", "dequantize_linear") or len(node.outputs) != 1:
        return False
    zero = node.const(2)
    if (node.has(2) and zero is None) or node.attrs.get("precision") is not None:
        return False
    quant = linear_quant(node, node.const(1), zero)
    out = node.out.type
    dtype = out.dtype if node.op == "quantize_linear" else node.x.type.dtype
    if quant is None or dtype not in INTEGERS or not out.concrete:
        return False
    stored = TensorType(dtype, out.shape, quant)
    if node.op == "quantize_linear":
        value = state.add("requantize", [node.x], stored, node)
        state.replace(node.out, state.add("reinterpret", [value], out, node))
        return True
    before = state.maker.get(node.x)
    if before is not None and before.op == "reinterpret" and same_numbers(before.x.type, stored):
        x = before.x
    elif node.x.data is not None:
        x = Value.constant(node.x.name, node.x.data, quant)
    else:
        x = state.add("reinterpret", [node.x], stored, node)
    state.replace(node.out, state.add("requantize", [x], out, node))
    return True


def turned_constant(state: Sweep, node: Node) -> bool:
    """transpose(requantize(const)) is requantize(transposed const): weights reach their layer as stored."""
    before = state.maker.get(node.x) if node.op == "transpose" else None
    if before is None or before.op != "requantize" or before.x.data is None:
        return False
    turned = turn(state, node, before.x, permutation(node))
    state.replace(node.out, state.add("requantize", [turned], node.out.type, node))
    return True


@also_quantised
def moved(state: Sweep, node: Node) -> bool:
    """A move between two quantisations is a move, then a change; concat changes its operands first."""
    if node.op not in MOVES or len(node.outputs) != 1 and node.op != "split":
        return False
    if node.op == "concat":
        return _joined(state, node)
    kind = node.x.type
    if kind.quant is not None and kind.quant.axis is not None:
        return False
    if all(same_numbers(v.type, kind) for v in node.outputs):
        return False
    outs = [Value(f"{v.name}.moved", TensorType(kind.dtype, v.type.shape, kind.quant)) for v in node.outputs]
    state.write(Node(node.op, node.inputs, outs, node.attrs, node.name))
    for old, new in zip(node.outputs, outs, strict=True):
        state.write(Node("requantize", [new], [old], {}, node.name))
    return True


def same_numbers(one: TensorType, other: TensorType) -> bool:
    """Whether stored numbers of the two types mean the same."""
    return (one.dtype, one.quant) == (other.dtype, other.quant)


def _joined(state: Sweep, node: Node) -> bool:
    kind = node.out.type
    if all(v is not None and same_numbers(v.type, kind) for v in node.inputs):
        return False
    inputs: list[Value | None] = []
    for value in node.inputs:
        assert value is not None
        if not same_numbers(value.type, kind):
            value = requantized(state, value, TensorType(kind.dtype, value.type.shape, kind.quant), node)
        inputs.append(value)
    state.write(Node("concat", inputs, node.outputs, node.attrs, node.name))
    return True


def requantized(state: Sweep, value: Value, type_: TensorType, like: Node) -> Value:
    """`value` in another type: a node, or for a constant its numbers."""
    if value.data is None:
        return state.add("requantize", [value], type_, like)
    out = Value(f"{value.name}.requantized", type_)
    current().hold(type_.nbytes, out.name)
    return Value.constant(out.name, run_node(Node("requantize", [value], [out]), [value.data])[0], type_.quant)


@also_quantised
def padded(state: Sweep, node: Node) -> bool:
    """The constant of a pad is stored as the padded value is: without one, it is the zero point and not 0."""
    if node.op != "pad" or node.attrs.get("mode", "constant") != "constant" or node.x.type.quant is None:
        return False
    kind = node.x.type
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is not None and (value.data is None or same_numbers(value.type, kind)):
        return False
    real = np.zeros((), np.float64)
    if value is not None:
        assert value.data is not None
        real = value.data if value.type.quant is None else to_real(value.data, value.type.quant)
    assert kind.dtype is not None and kind.quant is not None
    number = to_stored(np.asarray(real, np.float64).reshape(()), kind.dtype, kind.quant)
    fill = Value.constant(f"{node.out.name}.fill", number, kind.quant)
    rest = node.inputs[3:]
    state.write(Node("pad", [*node.inputs[:2], fill, *rest], node.outputs, node.attrs, node.name))
    return True
