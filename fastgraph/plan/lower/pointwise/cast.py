"""Casts between numbers that are not quantized."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....ops.registry import attr
from ..elements import ELEMENTS
from ..registry import Emit, lowers
from .calls import call_of_one, fits

CASTS = {**ELEMENTS, np.dtype(np.float64): "f64", np.dtype(np.int64): "i64", np.dtype(np.uint64): "u64",
         np.dtype(np.uint32): "u32", np.dtype(np.float16): "f16"}  # fmt: skip


def _match(node: Node) -> dict[str, str] | None:
    """The kernel's parameters."""
    types = node.x.type, node.out.type
    if not all(t.concrete and t.dtype in CASTS and t.quant is None and t.size for t in types):
        return None
    # What NumPy makes of a float that the integer can't hold is the processor's choice, and ours may be another.
    x, out = types[0].dtype, types[1].dtype
    assert x is not None and out is not None
    narrow = x.kind == "f" and out.kind in "iu" and out not in (np.int32, np.int64)
    halves = np.float16 in (x, out) and np.float32 not in (x, out)
    if attr(node, "format") != "" or narrow or halves or not fits(node):
        return None
    return {"source": CASTS[x], "target": CASTS[out]}


@lowers("cast", match=_match, strided_in=True, strided_out=True)
def cast(e: Emit, node: Node, params: dict[str, str]) -> None:
    call_of_one(e, node, "cast", params)
