"""Rounding to element types of few bits."""

from __future__ import annotations

import numpy as np

from ..ir import Node
from ..ops.narrow import INTEGERS, is_narrow
from ..ops.registry import attr
from .element_types import F32, cast
from .rewrite import Sweep, constant


def formatted(state: Sweep, node: Node) -> bool:
    """Rounding to floats of few bits begins with f32; whole numbers of few bits are the low ones of a byte."""
    x, out, kind = node.x, node.out, attr(node, "format")
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
