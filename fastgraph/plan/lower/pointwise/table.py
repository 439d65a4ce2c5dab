"""Tables: a value for each number that an element of one or two bytes may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node
from ....kernels.isa.tiers import cpu_flags
from ..elements import plain
from ..registry import Emit, lowers
from .calls import call_of_one, fits


def has_vbmi(e: Emit) -> bool:
    """Whether kernels of this tier may permute bytes across a 512-bit register here."""
    return e.tier.masks and "avx512vbmi" in cpu_flags()


def look_up(e: Emit, node: Node, values: np.ndarray) -> None:
    """The node's result is values[x]."""
    index, value = node.x.type.itemsize, values.itemsize
    params = {"index": index, "value": value, "vbmi": index == value == 1 and has_vbmi(e)}
    call_of_one(e, node, "table", params, table=e.constant(values))


def _match(node: Node) -> bool:
    if not plain(node.x.type, node.out.type) or node.x.type.dims != node.out.type.dims:
        return False
    assert node.x.type.dtype is not None
    size = node.x.type.dtype.itemsize
    return size <= 2 and node.attrs["values"].size == 1 << 8 * size and fits(node)


@lowers("table", match=_match, strided_in=True, strided_out=True, in_place=True)
def table(e: Emit, node: Node, _: Any) -> None:
    assert node.out.type.dtype is not None
    look_up(e, node, np.ascontiguousarray(node.attrs["values"].reshape(-1), node.out.type.dtype))
