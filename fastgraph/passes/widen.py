"""Changes of quantization around quantized nodes that only f32 kernels can compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import FLOAT32, Graph, Node, TensorType, Value
from ..ops.evaluate import computes_reals
from ..rules.sweep import Sweep, has_reals, sweep

Match = Callable[[Node], Any]
"""node -> the kernels that take it, None if none do. Answers are kept, so a node must not change once it was asked for.
"""


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
    """Whether the node's result is defined as the f32 result rounded to the nearest stored number."""
    return node.op != "requantize" and node.attrs.get("ties") is None


def _real(g: Sweep, value: Value) -> Value:
    """The reals of a value: a constant, or a value whose `requantize` is yet to be written."""
    type_ = TensorType(FLOAT32, value.type.shape)
    return Value(f"{value.name}.real", type_) if value.data is None else g.requantize(value, type_)
