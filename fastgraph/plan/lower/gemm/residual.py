"""Quantized layers on tiles that end in a residual sum: the add is hidden behind the products, which vectors don't do.

Elsewhere a step for the sum is as fast.
"""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....ops.registry import OPS
from ....ops.residual import with_sum, without_sum
from ...choose import choose
from ...layer import Integers, Layer, integer_layer
from ...quantized import f32_bits, per_tensor
from ...storage import last, row_count
from ..pointwise.chains import chain_of
from ..registry import Emit
from .layer_int8 import CANDIDATES

TILES = [candidate for candidate in CANDIDATES if candidate.name == "amx_conv"]


def joined(e: Emit, node: Node, layer: Layer[Integers], total: Node) -> Node | None:
    """The node that also adds, where tiles compute the layer, which has no operands at its end yet."""
    if not per_tensor(node.out, np.uint8) or len(node.inputs) > (OPS[node.op].extras_at or 0):
        return None
    dense = layer._replace(ldx=last(node.x), ldy=last(node.out))
    found = with_sum(node, total) if choose(CANDIDATES, dense, e.tier).name == "amx_conv" else None
    return found if found is not None and e.match(found) is not None else None


def summing_layer(node: Node) -> Layer[Integers] | None:
    """The layer of a node that ends in a residual sum, with the slots rows.SUMMED but for the addend's: the numbers of
    the step that the sum would be. None for others.
    """
    made, total = without_sum(node)
    value, other = total.operands
    if (
        not per_tensor(node.out, np.uint8, np.int8)
        or not per_tensor(other, np.uint8)
        or other.type.dims != value.type.dims
    ):
        return None
    layer, (chain, out) = integer_layer(made), chain_of(total)
    if layer is None or not out.bounded:
        return None
    match chain.steps:
        case (("fma", 0, float(first), float(offset)), ("fma", 1, float(second), 2)):
            sign = 128 if out.element == "s8" else 0
            slots = {
                "addend_first": int(chain.tensors[0] is other),
                "first_factor": f32_bits(first),
                "second_factor": f32_bits(second),
                "offset": f32_bits(offset),
                "sum_zero": out.zero + sign,
                "sum_low": out.low + sign,
                "sum_high": out.high + sign,
                "sum_form": sign,
            }
            return layer._replace(numbers=layer.numbers._replace(stored={**layer.numbers.stored, **slots}))
    return None


def with_addend(e: Emit, node: Node, layer: Layer[Integers], row: int) -> Layer[Integers]:
    """The layer with the slots of its addend, from this row of the result on."""
    other = node.operands[-1]
    step = e.stride(other)
    places = {
        "addend": e.address(other, row * step),
        "addend_image": row_count(other) // layer.window.images * step,
        "addend_row": step,
    }
    return layer._replace(numbers=layer.numbers._replace(stored={**layer.numbers.stored, **places}))
