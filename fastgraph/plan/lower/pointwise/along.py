"""Calls of the kernels that go along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ....ir import Node, TensorType, Value
from ..registry import Emit, Slot
from .cast import number

Axis = tuple[int, int, int]
"""(outer, n, inner): elements before, along and after the axes that a kernel goes along."""


def axis(dims: Sequence[int], first: int, end: int) -> Axis:
    """The axes first..end of a tensor as one."""
    return prod(dims[:first]), prod(dims[first:end]), prod(dims[end:])


def is_wide(x: TensorType) -> bool:
    """Whether elements are numbers of 4 or 8 bytes that are not quantized."""
    return x.concrete and x.quant is None and x.dtype is not None and x.dtype.kind in "iuf" and x.dtype.itemsize >= 4


def element(value: Value) -> str:
    """What kernels call the elements of a value, with a sign or not."""
    assert value.type.dtype is not None
    return number(value.type.dtype)


def signed(value: Value) -> int:
    """What the slot `signed` holds for the numbers of a value."""
    return int(value.type.dtype is not None and value.type.dtype.kind == "i")


def call_along(e: Emit, node: Node, kernel: str, params: Mapping[str, Any], along: Axis, **more: Slot) -> None:
    """Call a kernel whose record is AXIS, and `more`."""
    outer, n, inner = along
    args: dict[str, Slot] = {"y": node.out, "x": node.x, "outer": outer, "n": n, "inner": inner}
    e.kernel(kernel, params, args | more)
