"""Boundary casts: between signed bytes at the edges of a graph and the unsigned ones inside it.

`unsigned` puts a `requantize` there that adds or takes away 128. Where the neighbor's kernel does that
on the way it is a step for nothing.
"""

from __future__ import annotations

import numpy as np

from ...ir import Node
from ...ops.evaluate import computes_reals
from ...ops.reals import flips
from ...ops.registry import OPS, Quant
from ...rules.rule import rule
from ...rules.sweep import Sweep

ELEMENTWISE = frozenset({"fused", "requantize"})
"""Operators whose kernels read bytes with or without sign."""


@rule("signs", *ELEMENTWISE, "dense", quantized=True)
def reads_signed(g: Sweep, node: Node) -> bool:
    """Given ``y = dense(requantize(x), w)`` of one row, x int8 and its twin uint8; result ``y = dense(x, w)``."""
    places = range(len(node.inputs)) if node.op in ELEMENTWISE else range(1) if _is_row(node) else ()
    inputs = list(node.inputs)
    for i in places:
        value = inputs[i]
        maker = None if value is None else g.maker.get(value)
        if maker is not None and maker.op == "requantize" and maker.out.type.dtype == np.uint8:
            inputs[i] = maker.x if flips(maker.x.type, maker.out.type) else value
    return any(old is not new for old, new in zip(node.inputs, inputs, strict=True)) and g.again(node, inputs)


@rule("signs", "requantize", quantized=True)
def writes_signed(g: Sweep, node: Node) -> bool:
    """Given ``y = requantize(dense(x, w))``, y int8 and its twin uint8; result ``y = dense(x, w)``, int8."""
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
    weights = node.inputs[1] if len(node.inputs) > 1 else None
    constant = weights is not None and weights.data is not None
    return constant and (node.op == "dense" or node.op == "conv" and node.attrs["groups"] == 1)
