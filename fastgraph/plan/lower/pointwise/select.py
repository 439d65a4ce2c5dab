"""Comparisons and selection of f32 and quantized operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir import Node, Value
from ..registry import Emit, lowers
from ..walk import Out
from .calls import fits, inputs_of
from .chains import Chain, as_read, call_stored, f32, held, readable, real, writable

COMPARISONS = ("equal", "less", "less_or_equal", "greater", "greater_or_equal")


def _compares(node: Node) -> bool:
    return all(map(readable, inputs_of(node))) and _is_truth(node.out) and node.out.type.size > 0 and fits(node)


def _is_truth(value: Value) -> bool:
    return value.type.concrete and value.type.dtype == np.bool_


@lowers(*COMPARISONS, match=_compares, strided_in=True, strided_out=True)
def truth(e: Emit, node: Node, _: Any) -> None:
    """1 or 0, from reals."""
    chain = Chain()
    chain.step(node.op, *(real(chain, as_read(v)) for v in inputs_of(node)))
    call_stored(e, node, chain, Out("bool"))


def _selects(node: Node) -> bool:
    if not all(node.inputs):
        return False
    condition, *both = inputs_of(node)
    return _is_truth(condition) and all(map(readable, both)) and writable(node.out) and fits(node)


@lowers("where", match=_selects, strided_in=True, strided_out=True)
def where(e: Emit, node: Node, _: Any) -> None:
    chain = Chain()
    chosen = chain.step("where", *(real(chain, as_read(v)) for v in inputs_of(node)))
    if node.out.type.quant is not None:
        chain.step("mul", chosen, f32(1 / node.out.type.quant.scale[0]))
    call_stored(e, node, chain, held(node))
