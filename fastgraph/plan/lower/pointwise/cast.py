"""Casts between numbers that are not quantized."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....ops.registry import attr
from ..move.emit import emit_copy
from ..registry import Emit, lowers
from .calls import call_of_one, fits

NUMBERS = {np.dtype(np.float16): "f16", np.dtype(np.float32): "f32", np.dtype(np.float64): "f64",
           np.dtype(np.bool_): "i8"}  # fmt: skip
"""What the kernel calls element types that are no integers; a bool is a byte that is 0 or 1."""


def number(dtype: np.dtype) -> str | None:
    """What the kernel calls the numbers of an element type."""
    return f"i{8 * dtype.itemsize}" if dtype.kind in "iu" else NUMBERS.get(dtype)


def _match(node: Node) -> tuple[str, str] | None:
    """The kernel's source and target; where they are the same, the numbers' bits are."""
    types = node.x.type, node.out.type
    if not all(t.concrete and t.dtype is not None and t.quant is None and t.size for t in types):
        return None
    # What NumPy makes of a float that the integer can't hold is the processor's choice, and ours may be another.
    x, out = types[0].dtype, types[1].dtype
    assert x is not None and out is not None
    narrow = x.kind == "f" and out.kind in "iu" and out not in (np.int32, np.int64)
    halves = np.float16 in (x, out) and np.float32 not in (x, out)
    source, target = number(x), "bool" if out == np.bool_ != x else number(out)
    if source is None or target is None or attr(node, "format") != "" or narrow or halves or not fits(node):
        return None
    return source, target


@lowers("cast", match=_match, strided_in=True, strided_out=True)
def cast(e: Emit, node: Node, pair: tuple[str, str]) -> None:
    source, target = pair
    x, out = node.x, node.out
    assert x.type.dtype is not None
    if source == target:
        emit_copy(e, x.type.dims, x.type.itemsize, (e.address(x), e.strides(x)), (e.address(out), e.strides(out)))
    else:
        call_of_one(e, node, "cast", {"source": source, "target": target}, [x.type.dtype.kind == "i"])
