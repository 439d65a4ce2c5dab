"""Rounding to element types of few bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Node, Value
from ...ops.narrow import INTEGERS, is_narrow
from ...ops.registry import attr
from ...rules.operands import known
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .element_types import F32


@rule("early", "cast")
def formatted(g: Sweep, node: Node) -> bool:
    """Rounding to floats of few bits begins with f32; whole numbers of few bits are the low ones of a byte."""
    x, byte, kind = node.x, node.out.type.dtype, attr(node, "format")
    if kind == "float8e8m0":
        return _power_of_two(g, node)
    if x.type.dtype is None or byte is None or x.type.dtype.kind not in "biuf" or not is_narrow(kind):
        return False
    if kind not in INTEGERS:
        return x.type.dtype != F32 and x.type.dtype.itemsize <= 2 and g.again(node, [g.cast(x, F32)])
    bits = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}[kind]
    if byte.kind not in "iu" or byte.itemsize != 1:
        return False
    y = g.cast(x, byte)
    if kind[0] == "u":
        return g.becomes(g("bitwise_and", y, (1 << bits) - 1))
    return g.becomes(_shifted(g, _shifted(g, y, 8 - bits, "LEFT"), 8 - bits, "RIGHT"))


def _shifted(g: Sweep, x: Value, bits: int, direction: str) -> Value:
    return g("bit_shift", x, bits, direction=direction)


UP = {"up": (0x7FFFFF, 0x400001), "nearest": (0x400000, 0x600000), "down": (0, 0x800000)}
"""What is added to the bits of an f32 before its exponent is taken, and from which bits on a subnormal one is the least
normal one."""


def _power_of_two(g: Sweep, node: Node) -> bool:
    """x rounded to a power of two: to its exponent. The least, 2**-127, is a subnormal number."""
    x, (part, least) = node.x, UP[attr(node, "round_mode")]
    if not known(x, dtypes=[F32, np.float16]) or node.out.type.dtype != F32:
        return False
    cast: Any = {"format": "", "from_format": "", "resize": 0}
    size = g("bitwise_and", g("bit_cast", g.cast(x, F32), to="int32", **cast), 0x7FFFFFFF)
    power = _shifted(g, size + part, 23, "RIGHT")
    power = g.choose(size < 1 << 23, g.cast(size >= least, np.int32), power)
    bits = g.choose(power < 1, 1 << 22, _shifted(g, g.min(power, 254), 23, "LEFT"))
    none = size > 0x7F800000
    if not attr(node, "saturate"):
        none = none | (g.equal(size, 0) | (power > 254))
    return g.becomes(g("bit_cast", g.choose(none, 0x7FC00000, bits), to="float32", **cast))
