"""Functions of one byte as tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...ir import Node, Value
from ...ops.evaluate import run_node
from ...ops.registry import OPS
from ...rules.operands import BYTES
from ...rules.rule import rule
from ...rules.sweep import Sweep

DEEPEST = 8
"""How many nodes in a row are looked through for the byte that a value is a function of."""


class _Function(NamedTuple):
    """A value as a function of one value of 8 bits: its numbers [256] by the byte that x stores."""

    x: Value
    numbers: np.ndarray


@rule("tables", lambda op: op.step is not None, "requantize", quantized=True)
def tabulate(g: Sweep, node: Node) -> bool:
    """An elementwise function of one value of 8 bits is a table of 256 results.

    Given ``y = mul(x, sigmoid(x))``, x and y uint8, and what lies between them f32; result ``y = table(x)``. A table is
    indexed by the byte that is stored.
    """
    if node.op == "requantize" and not _follows_function(g, node.x):
        return False
    if len(node.outputs) != 1 or not _is_byte(node.out):
        return False
    found = _applied(g, node, {}, DEEPEST)
    if found is None or found.x.type.shape != node.out.type.shape:
        return False
    return g.becomes(g("table", found.x, type=node.out.type, values=found.numbers))


def _follows_function(g: Sweep, x: Value) -> bool:
    maker = g.maker.get(x)
    return maker is not None and (maker.op == "table" or x.type.dtype == np.float32 and OPS[maker.op].step is not None)


def _is_byte(value: Value) -> bool:
    quant = value.type.quant
    return value.type.dtype in BYTES and quant is not None and quant.axis is None


def _applied(g: Sweep, node: Node, known: dict[Value, _Function | None], deep: int) -> _Function | None:
    """The result of an elementwise node, where its operands are functions of the same value and single numbers."""
    found = [None if v is None or v.data is not None else _function(g, v, known, deep) for v in node.inputs]
    of = [f for f in found if f is not None]
    if not of or any(f.x is not of[0].x for f in of):
        return None
    operands = [_operand(v, f) for v, f in zip(node.inputs, found, strict=True)]
    if None in operands:
        return None
    inputs, arrays = zip(*filter(None, operands), strict=True)
    numbers: np.ndarray = run_node(node.with_(inputs, [_line(node.out)]), list(arrays))[0]
    return _Function(of[0].x, numbers.reshape(256))


def _operand(value: Value | None, function: _Function | None) -> tuple[Value | None, np.ndarray | None] | None:
    """An operand and its elements: those of a function, or a single number without axes, which goes with any."""
    if value is None or function is not None:
        return value and _line(value), function and function.numbers
    quant = value.type.quant
    if value.data is None or value.data.size != 1 or (quant is not None and quant.axis is not None):
        return None
    number = Value.constant(value.name, value.data.reshape(()), quant)
    return number, number.data


def _function(g: Sweep, value: Value, known: dict[Value, _Function | None], deep: int) -> _Function | None:
    """`value` as a function of a byte, seen through tables, changes of quantization and f32 steps."""
    if (table := g.made_by(value, "table")) is not None:
        return _Function(table.x, table.attrs["values"])
    if value not in known:
        known[value] = _seen_through(g, value, known, deep - 1) or _itself(value)
    return known[value]


def _seen_through(g: Sweep, value: Value, known: dict[Value, _Function | None], deep: int) -> _Function | None:
    maker = g.maker.get(value)
    if maker is None or not deep or len(maker.outputs) != 1:
        return None
    real = value.type.dtype == np.float32 and value.type.quant is None
    if maker.op == "requantize":
        return _applied(g, maker, known, deep) if real or _is_byte(maker.x) and _is_byte(value) else None
    return _applied(g, maker, known, deep) if real and OPS[maker.op].step is not None else None


def _itself(value: Value) -> _Function | None:
    return _Function(value, np.arange(256).astype(np.uint8).view(value.type.element)) if _is_byte(value) else None


def _line(value: Value) -> Value:
    """A new value of 256 elements with the given value's element type and quantization."""
    return Value(value.name, value.type.with_shape((256,)))
