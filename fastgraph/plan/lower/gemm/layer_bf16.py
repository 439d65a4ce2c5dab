"""Candidates for convolutions and dense layers by products of pairs of bf16, on CPUs that have them in vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ....cpus import level_two
from ....ir import Node, Value
from ....ir.types import BFLOAT16
from ....kernels.gemm.pack import Arrangement
from ....kernels.gemm.pack_bf16 import balanced, pairs
from ....kernels.gemm.pick_conv import Geometry, pick_conv_bf16, plain_cycles, widened
from ....kernels.gemm.pick_dot import Product, pick_dot_bf16
from ....kernels.gemm.pick_winograd import reading_times
from ....kernels.gemm.rows import ITEM
from ....kernels.isa.tiers import Tier
from ...choose import Candidate
from ...layer import Layer, Reals, geometry, together
from ...program import Ref, Scratch
from ..emit import Rows
from ..epilogue import addend_item, product_ending
from ..registry import Emit, Slot, row_count
from .calls import Columns, conv_calls, dense_sizes, dot_calls
from .layer_f32 import emit_conv, emit_dot, emit_grouped, grouped_cycles, groups, outputs_together, packed, panels_of

Write = Callable[..., None]


def element_of(layer: Layer[Reals], tier: Tier) -> str:
    """What is multiplied: pairs of bf16 of one pixel, or f32 where most of a pair would be empty, or groups are odd."""
    c, groups = layer.merged(tier)[0].c, layer.groups
    return "f32" if c == 1 or (c % 2 and groups > 1) else "bf16"


def reads_bf16(layer: Layer[Reals], tier: Tier) -> bool:
    """Whether x may be bf16: an odd number of channels is copied to an even one, from f32."""
    return layer.merged(tier)[0].c % 2 == 0


def _geometry(layer: Layer[Reals], tier: Tier) -> tuple[Geometry, Arrangement]:
    """The layer as a convolution of what it multiplies."""
    g, how = layer.merged(tier)
    if element_of(layer, tier) == "f32":
        return g, how
    if g.c % 2 == 0:
        return g._replace(item=2), how
    return geometry(layer.window, 1, g.c + 1, g.c + 1, 2)._replace(zeros=g.zeros), how


def _times(layer: Layer[Reals], tier: Tier) -> list[float]:
    g, _ = _geometry(layer, tier)
    cycles = plain_cycles(tier, widened(g, outputs_together(layer, g, tier)))
    return reading_times(cycles, g.groups * g.k * g.n * g.item // 4)


def _emit(plain: Write, own: Write, e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    """Write the steps by a kernel of its own, of an element and of results; by the plain one where both are f32."""
    element, out = element_of(layer, e.tier), out_of(node)
    if element == out == "f32":
        plain(e, node, layer, rows)
    else:
        own(e, node, *_in_element(e, node, layer, rows, element), element, out)


def _dot(e: Emit, node: Node, layer: Layer[Reals], rows: Rows, element: str, out: str) -> None:
    images, k = layer.window.images, _geometry(layer, e.tier)[0].k
    product = Product(layer.pixels // images, layer.n, k, images, layer.ldx)
    pieces = pick_dot_bf16(e.tier, product, element, out, e.threads, level_two())
    slots = dense_sizes(layer, images, k * ITEM[element] // 4)
    pack = partial(_packed, e, layer, Arrangement(), element)
    dot_calls(e, layer, rows, "dot_bf16", pieces, pack, **slots, **_ending(e, node, rows))


def _conv(e: Emit, node: Node, layer: Layer[Reals], rows: Rows, element: str, out: str) -> None:
    g, how = _geometry(layer, e.tier)
    for part in together(g, how, outputs_together(layer, g, e.tier)):
        pieces = pick_conv_bf16(e.tier, part.g, element, out, e.threads, level_two())
        pack = partial(_packed, e, layer, part.how, element)
        conv_calls(e, layer, rows, "conv_bf16", pieces, part, pack, **_ending(e, node, rows))


def out_of(node: Node) -> str:
    """The elements of a layer's result."""
    return "bf16" if node.out.type.dtype == BFLOAT16 else "f32"


def _ending(e: Emit, node: Node, rows: Rows) -> dict[str, Any]:
    """The slots of a layer's ending, with the bytes of what is added first."""
    return {**product_ending(e, node, rows.start, long=True), "addend_item": addend_item(node)}


def _packed(e: Emit, layer: Layer[Reals], how: Arrangement, element: str, columns: Columns) -> Ref:
    if element == "f32":
        return packed(e, layer, how)(columns)
    return e.packed(_panels, *layer.numbers, how, columns, e.tier.lanes, placed=True)


def _panels(
    weights: np.ndarray, bias: np.ndarray | None, how: Arrangement, columns: Columns, lanes: int, *, empty: Any
) -> np.ndarray:
    """The panels of some columns of each group."""
    odd, even = weights.shape[-1] * how.factor % 2, balanced(weights)
    if odd:
        even = np.pad(even, [(0, 0)] * (weights.ndim - 1) + [(0, 1)])
    return panels_of(pairs, even, bias, how, columns, lanes, empty)


def _in_element(e: Emit, node: Node, layer: Layer[Reals], rows: Rows, element: str) -> tuple[Layer[Reals], Rows]:
    """The layer with its pixels as it multiplies them: where they are, or rounded to bf16 in scratch."""
    if element == "f32" or node.x.type.dtype == BFLOAT16:
        return layer, rows
    count, c = layer.window.images * prod(layer.window.size), layer.inputs
    made = rounded_rows(e, node.x, rows.x, layer.ldx, count, c)
    return layer._replace(ldx=c + c % 2), rows._replace(x=made)


def rounded_rows(e: Emit, value: Value, x: Ref, ldx: int, count: int, c: int) -> Ref:
    """`count` rows of c f32 at an address as rows of an even number of bf16 in scratch, made once for all that read the
    whole value.
    """
    even = c + c % 2
    whole = count == row_count(value) and not isinstance(x.base, Scratch) and not e.part
    made = e.rounded.get(value) if whole else None
    if made is None:
        made = e.scratch(2 * count * even)
        slots: dict[str, Slot] = {"x": x, "ldx": ldx, "y": made, "ldy": even, "rows": count, "c": c}
        e.kernel("round_bf16", {}, slots, share=0.0)
        if whole:
            e.rounded[value] = made
    return made


def _grouped(e: Emit, node: Node, layer: Layer[Reals], rows: Rows) -> None:
    emit_grouped(e, node, *_in_element(e, node, layer, rows, "bf16"), narrow=True)


CANDIDATES: tuple[Candidate[Layer[Reals]], ...] = (
    Candidate("dot_bf16", lambda layer, tier: layer.form == "dense", _times, partial(_emit, emit_dot, _dot)),
    Candidate("conv_bf16", lambda layer, tier: layer.form == "conv", _times, partial(_emit, emit_conv, _conv)),
    Candidate("grouped", lambda layer, tier: groups(layer, tier, narrow=True) is not None,
              lambda layer, tier: [t / 2 for t in grouped_cycles(layer, tier)], _grouped),
)  # fmt: skip
