"""Quantized layers on tiles that end in a residual sum: the add is hidden behind the products, which vectors don't do.

Elsewhere a step for the sum is as fast.
"""

from __future__ import annotations

import numpy as np

from ....ir import Node, Quantization, TensorType, Value
from ....ops.chain import SUM
from ....ops.registry import OPS
from ...choose import choose
from ...layer import Integers, Layer, integer_layer
from ...quantized import f32_bits, per_tensor
from ...storage import last, row_count
from ..pointwise.chains import chain_of
from ..registry import Emit
from .layer_int8 import CANDIDATES

TILES = [candidate for candidate in CANDIDATES if candidate.name == "amx_conv"]
MOST = 255
"""The greatest stored number."""


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


def with_sum(layer: Node, total: Node) -> Node:
    """`layer`, whose result in uint8 is one of two operands of `total`, a fused node that begins with their sum."""
    value, (other,) = layer.out, [v for v in total.inputs if v is not layer.out]
    (scale,), (zero,), _ = value.type.quantization
    own = layer.attrs.get("chain", ())
    chain = [(name, x + 1 if x else 0, *numbers) for name, x, *numbers in own]
    for name, *numbers in (("div", scale), ("round",), ("clip", -float(zero), float(MOST - zero)), ("mul", scale)):
        chain.append((name, len(chain) + 1 if chain else 0, *numbers))
    result = len(chain) + 1
    places = {total.inputs.index(value): result, total.inputs.index(other): 1}
    for name, *operands in total.attrs["chain"]:
        chain.append((name, *(o if isinstance(o, float) else places.get(o, o + result - 1) for o in operands)))
    at = OPS[layer.op].extras_at or 0
    attrs = {**layer.attrs, "chain": tuple(chain), SUM: len(own)}
    return layer.with_([*(layer.inputs + [None] * at)[:at], other], total.outputs, attrs=attrs)


def without_sum(node: Node) -> tuple[Node, Node]:
    """The layer and the sum of which `with_sum` made a node."""
    attrs, at = dict(node.attrs), OPS[node.op].extras_at or 0
    chain, start = attrs.pop("chain"), attrs.pop(SUM)
    (_, _, scale), _, (_, _, low, _), _ = chain[start : start + 4]
    type_ = TensorType(np.dtype(np.uint8), node.out.type.shape, Quantization((scale,), (round(-low),)))
    value, result = Value(f"{node.out.name}.layer", type_), start + 5
    if own := tuple((name, x - 1 if x else 0, *numbers) for name, x, *numbers in chain[:start]):
        attrs["chain"] = own
    places = {result: 0, 1: 1}
    tail = tuple(
        (name, *(o if isinstance(o, float) else places.get(o, o - result + 1) for o in operands))
        for name, *operands in chain[start + 4 :]
    )
    total = Node("fused", [value, node.inputs[at]], node.outputs, {"chain": tail})
    return node.with_(node.inputs[:at], [value], attrs=attrs), total
