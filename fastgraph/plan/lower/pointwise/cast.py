"""Casts between numbers that are not quantized."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....kernels.pointwise.rows import TARGETS
from ....ops.registry import attr
from ..elements import number
from ..moves import SIZES, emit_copy
from ..registry import Emit, lowers
from .calls import call_of_one, fits


def _match(node: Node) -> tuple[str, str] | None:
    """The kernel's source and target types; between equal ones the bits are copied."""
    types = node.x.type, node.out.type
    if not all(t.concrete and t.dtype is not None and t.quant is None and t.size for t in types):
        return None
    x, out = types[0].element, types[1].element
    if x.kind not in "biuf" or out.kind not in "biuf" or attr(node, "format") != "" or not fits(node):
        return None
    if out == np.bool_ != x:
        return number(x), "bool"
    exact = f"{out.kind}{8 * out.itemsize}"
    return number(x), exact if x.kind == "f" and exact in TARGETS else number(out)


@lowers("cast", match=_match, strided_in=True, strided_out=True)
def cast(e: Emit, node: Node, pair: tuple[str, str]) -> None:
    source, target = pair
    x, out = node.x, node.out
    if source == target:
        emit_copy(e, x.type.dims, x.type.itemsize, e.strided(x), e.strided(out))
    else:
        signed = x.type.element.kind == "i"
        call_of_one(e, node, "cast", {"source": source}, target=TARGETS.index(target), signed=signed)


def _same_bits(node: Node) -> bool:
    """Whether a bit cast keeps the bytes: the same shape, or a last axis of the parts of each wider element."""
    x, out = node.x.type, node.out.type
    plain = x.concrete and x.quant is None and out.quant is None and x.size > 0
    numbers = plain and x.dtype is not None and out.dtype is not None and {x.dtype.kind, out.dtype.kind} <= set("biufc")
    if not numbers:
        return False
    wide, narrow = (x, out) if x.itemsize >= out.itemsize else (out, x)
    parts = wide.itemsize // narrow.itemsize
    return wide.itemsize in SIZES and narrow.shape == (wide.dims if parts == 1 else (*wide.dims, parts))


@lowers("bit_cast", match=_same_bits, strided_in=True, strided_out=True)
def bit_cast(e: Emit, node: Node, _: bool) -> None:
    x, out = node.x, node.out
    wide = max(x.type, out.type, key=lambda t: t.itemsize)
    rank = len(wide.dims)
    ends = [(e.address(v), e.strides(v)[:rank]) for v in (x, out)]
    emit_copy(e, wide.dims, wide.itemsize, *ends)
