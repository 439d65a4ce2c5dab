"""Layers of bytes that end in a residual sum: one node, whose chain rounds to the layer's numbers before it adds."""

from __future__ import annotations

import numpy as np

from ..ir import Node, Quantization, TensorType, Value
from .chain import SUM
from .registry import OPS

MOST = 255
"""The greatest stored number."""


def with_sum(layer: Node, total: Node) -> Node:
    """`layer`, whose result in uint8 is one of two operands of `total`, a fused node that begins with their sum."""
    value, (other,) = layer.out, [v for v in total.inputs if v is not layer.out]
    (scale,), (zero,), _ = value.type.quantization
    own = layer.attrs.get("chain", ())
    chain = [(name, x + 1 if x else 0, *numbers) for name, x, *numbers in own]
    for name, *numbers in (("div", scale), ("round",), ("clip", -float(zero), float(MOST - zero)), ("mul", scale)):
        chain.append((name, len(chain) + 1 if chain else 0, *numbers))
    result = len(chain) + 1
    places = {total.inputs.index(value): result, total.inputs.index(other): 1}
    for name, *operands in total.attrs["chain"]:
        chain.append((name, *(o if isinstance(o, float) else places.get(o, o + result - 1) for o in operands)))
    at = OPS[layer.op].extras_at or 0
    attrs = {**layer.attrs, "chain": tuple(chain), SUM: len(own)}
    return layer.with_([*(layer.inputs + [None] * at)[:at], other], total.outputs, attrs=attrs)


def without_sum(node: Node) -> tuple[Node, Node]:
    """The layer and the sum of which `with_sum` made a node."""
    attrs, at = dict(node.attrs), OPS[node.op].extras_at or 0
    chain, start = attrs.pop("chain"), attrs.pop(SUM)
    (_, _, scale), _, (_, _, low, _), _ = chain[start : start + 4]
    type_ = TensorType(np.dtype(np.uint8), node.out.type.shape, Quantization((scale,), (round(-low),)))
    value, result = Value(f"{node.out.name}.layer", type_), start + 5
    if own := tuple((name, x - 1 if x else 0, *numbers) for name, x, *numbers in chain[:start]):
        attrs["chain"] = own
    places = {result: 0, 1: 1}
    tail = tuple(
        (name, *(o if isinstance(o, float) else places.get(o, o - result + 1) for o in operands))
        for name, *operands in chain[start + 4 :]
    )
    total = Node("fused", [value, node.inputs[at]], node.outputs, {"chain": tail})
    return node.with_(node.inputs[:at], [value], attrs=attrs), total
