"""Quantized nodes that only f32 kernels can compute get changes of quantization around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import Graph, Node, TensorType, Value
from ..ops.evaluate import computes_reals
from ..rules.sweep import Sweep, has_reals, sweep

Match = Callable[[Node], Any]
"""The kernels that take a node, None if none do. They are kept: a node that was asked for must not change any more."""
F32 = np.dtype(np.float32)


def widen(graph: Graph, match: Match) -> bool:
    """Given ``y = lrn(x)`` in uint8; result ``y = requantize(lrn(requantize(x)))``, if there is a kernel for that."""
    reals: dict[Value, Value] = {}

    def widened(g: Sweep, node: Node) -> bool:
        if not computes_reals(node) or match(node) is not None or not _rounds_once(node):
            return False
        stored = [v for v in dict.fromkeys(node.inputs) if v is not None and v.type.quant is not None]
        real = {v: reals.get(v) or _real(g, v) for v in stored}
        inputs = [v if v is None else real.get(v, v) for v in node.inputs]
        wide = node.with_(inputs, [v if v.type.quant is None else _real(g, v) for v in node.outputs])
        if match(wide) is None:
            return False
        for value in stored:
            if value.data is None and value not in reals:
                g.into(real[value], "requantize", value)
        reals.update(real)
        g.write(wide)
        for value, made in zip(node.outputs, wide.outputs, strict=True):
            if made is not value:
                g.into(value, "requantize", made)
        return True

    widened.quantized = True  # type: ignore[attr-defined]
    return has_reals(graph) and sweep(graph, widened)


def _rounds_once(node: Node) -> bool:
    """Whether its result is what f32 gives, rounded to the nearest stored number."""
    return node.op != "requantize" and node.attrs.get("ties") is None


def _real(g: Sweep, value: Value) -> Value:
    """The reals of a value: those of a constant, or a value that is yet to be made."""
    type_ = TensorType(F32, value.type.shape)
    return Value(f"{value.name}.real", type_) if value.data is None else g.requantize(value, type_)
