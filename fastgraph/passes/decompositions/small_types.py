"""Rounding to element types of few bits."""

from __future__ import annotations

import numpy as np

from ...ir import Node
from ...ir.build import constant
from ...ops.narrow import INTEGERS, is_narrow
from ...ops.registry import attr
from ...rules.moves import cast
from ...rules.rule import rule
from ...rules.sweep import Sweep
from .element_types import F32
from .writing import Steps, known


@rule("early", "cast")
def formatted(state: Sweep, node: Node) -> bool:
    """Rounding to floats of few bits begins with f32; whole numbers of few bits are the low ones of a byte."""
    x, out, kind = node.x, node.out, attr(node, "format")
    if kind == "float8e8m0":
        return _power_of_two(Steps(state, node))
    if x.type.dtype is None or out.type.dtype is None or x.type.dtype.kind not in "biuf" or not is_narrow(kind):
        return False
    if kind not in INTEGERS:
        if x.type.dtype == F32 or x.type.dtype.itemsize > 2:
            return False
        state.write(Node("cast", [cast(state, node, x, F32)], node.outputs, node.attrs, node.name))
        return True
    bits, byte = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}[kind], out.type.dtype
    if byte.kind not in "iu" or byte.itemsize != 1:
        return False
    y = state.add("cast", [x], out.type, node, to=byte.name) if x.type.dtype != byte else x
    if kind[0] == "u":
        y = state.add("bitwise_and", [y, constant(out, np.array((1 << bits) - 1, byte), "mask")], out.type, node)
    else:
        far = constant(out, np.array(8 - bits, byte), "shift")
        for direction in ("LEFT", "RIGHT"):
            y = state.add("bit_shift", [y, far], out.type, node, direction=direction)
    state.replace(out, y)
    return True


UP = {"up": (0x7FFFFF, 0x400001), "nearest": (0x400000, 0x600000), "down": (0, 0x800000)}
"""What is added to the bits of an f32 before its exponent is taken, and from which bits on a subnormal one is the least
normal one."""


def _power_of_two(do: Steps) -> bool:
    """x rounded to a power of two: to its exponent. The least, 2**-127, is a subnormal number."""
    x, wide = do.node.x, do.node.x.type.dtype in (F32, np.float16)
    if not wide or not known(x, dtypes=[x.type.dtype]) or do.node.out.type.dtype != F32:
        return False
    saturate, (part, least) = attr(do.node, "saturate"), UP[attr(do.node, "round_mode")]
    cast, number = {"to": "int32", "format": "", "from_format": "", "resize": 0}, do.cast(x, F32)
    size = do("bitwise_and", do("bit_cast", number, **cast), 0x7FFFFFFF)
    power = do("bit_shift", do("add", size, part), 23, direction="RIGHT")
    power = do.where(do("less", size, 1 << 23), do.cast(do("greater_or_equal", size, least), np.int32), power)
    shifted = do("bit_shift", do("min", power, 254), 23, direction="LEFT")
    bits = do.where(do("less", power, 1), 1 << 22, shifted)
    none = do("greater", size, 0x7F800000)
    if not saturate:
        none = do("or", none, do("or", do("equal", size, 0), do("greater", power, 254)))
    bits = do.where(none, 0x7FC00000, bits)
    return do.becomes(do("bit_cast", bits, **{**cast, "to": "float32"}))
