"""Functions of one byte as tables."""

from __future__ import annotations

import numpy as np

from ...ir import Node, Value
from ...ops.evaluate import run_node
from ...rules.operands import BYTES
from ...rules.rule import rule
from ...rules.sweep import Sweep


@rule("tables", lambda op: op.step is not None, "requantize", quantized=True)
def tabulate(g: Sweep, node: Node) -> bool:
    """An elementwise function of one value of 8 bits is a table of 256 results.

    Given ``y = mul(x, sigmoid(x))``, all uint8; result ``y = table(x)``. A table is indexed by the byte that is stored.
    """
    if node.op == "requantize" and not g.made_by(node.x, "table"):
        return False
    if len(node.outputs) != 1 or node.out.type.dtype not in BYTES:
        return False
    if node.out.type.quant is None or node.out.type.quant.axis is not None:
        return False
    roots = [_function(g, v) for v in node.inputs if v is not None and v.data is None]
    numbers = all(v.data.size == 1 for v in node.inputs if v is not None and v.data is not None)
    if not roots or not numbers or any(r is None or r[0] is not roots[0][0] for r in roots):  # type: ignore[index]
        return False
    x = roots[0][0]  # type: ignore[index]
    if x.type.shape != node.out.type.shape:
        return False
    return g.becomes(g("table", x, type=node.out.type, values=_results(g, node)))


def _function(g: Sweep, value: Value, further: bool = True) -> tuple[Value, np.ndarray] | None:
    """(x, the 256 stored numbers of `value` by those of x) where `value` is a function of one value of 8 bits.
    `further`: look through a change of quantization, but not through a second one, as there may be very many."""
    if (table := g.made_by(value, "table")) is not None:
        return table.x, table.attrs["values"]
    quant = value.type.quant
    if value.type.dtype not in BYTES or quant is None or quant.axis is not None:
        return None
    maker = g.made_by(value, "requantize") if further else None
    if maker is not None and maker.x.type.dtype in BYTES:
        before = _function(g, maker.x, False)
        if before is not None:
            return before[0], run_node(maker.with_([_line(maker.x)], [_line(value)]), [before[1]])[0]
    assert value.type.dtype is not None
    return value, np.arange(256).astype(np.uint8).view(value.type.dtype)


def _line(value: Value) -> Value:
    """A new value of 256 elements with the given value's element type and quantization."""
    return Value(value.name, value.type.with_shape((256,)))


def _results(g: Sweep, node: Node) -> np.ndarray:
    """The stored results of an elementwise node for all 256 numbers of its argument."""
    arrays, inputs = [], []
    for value in node.inputs:
        if value is None or value.data is not None:
            inputs.append(value)
            arrays.append(None if value is None else value.data)
            continue
        function = _function(g, value)
        assert function is not None
        inputs.append(_line(value))
        arrays.append(function[1])
    result: np.ndarray = run_node(node.with_(inputs, [_line(node.out)]), arrays)[0]
    return result.reshape(256)
