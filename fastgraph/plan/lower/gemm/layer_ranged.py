"""Candidates for layers of bytes whose results are f32: dot_dynamic, conv_dynamic and, on AMX tiles, amx_dynamic.

Callers say where kernels find the ranges that x was rounded by: the slots `rows.RANGES`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import Arrangement
from ....kernels.gemm.pack_int8 import Words
from ....kernels.gemm.pick_dot import Product
from ....kernels.gemm.pick_dynamic import pick_conv_dynamic, pick_dot_dynamic
from ...choose import Candidate
from ...layer import Integers, Layer, RowPart
from ...quantized import folded_bias
from ..emit import Rows
from ..epilogue import epilogue, product_ending
from ..registry import Emit, Slot
from .calls import conv_calls, dense_sizes, dot_calls, part_of, tile_slots
from .layer_int8 import all_lines, cycles, packed, tile_cycles, tile_lines, tiles_suit


def dot(
    e: Emit, layer: Layer[Integers], rows: Rows, images: int, ending: dict[str, Slot], ranges: dict[str, Slot],
    narrow: bool = False,
) -> None:  # fmt: skip
    """Write the calls of a dense layer on rows of so many images; ending: of `product_ending`; narrow: of
    `pack_int8.Words`.
    """
    k, rowsum = layer.numbers.weights[0].size, layer.numbers.rowsum(e.tier, narrow)
    product = Product(layer.pixels // images, layer.n, k, images, layer.ldx, bool(ending["later"]))
    pieces = pick_dot_dynamic(e.tier, product, e.threads, bool(ranges["per_row"]), rowsum, narrow)
    pack, sizes = packed(e, layer, Arrangement(), Words(k, narrow=narrow)), dense_sizes(layer, images, -(-k // 4))
    dot_calls(e, layer, rows, "dot_dynamic", pieces, pack, **sizes, **ranges, **ending)


def conv(e: Emit, node: Node, layer: Layer[Integers], rows: Rows, ranges: dict[str, Slot], fill: int = 0) -> None:
    """Write the calls of a convolution; fill: the word of padding."""
    g, how = layer.merged(e.tier)
    g, pieces = pick_conv_dynamic(e.tier, g, e.threads, layer.numbers.rowsum(e.tier))
    own = {"fill": fill, **ranges, **product_ending(e, node, rows.start)}
    conv_calls(e, layer, rows, "conv_dynamic", pieces, RowPart(g, how), packed(e, layer, how, Words(g.run)), **own)


def tiles(e: Emit, node: Node, layer: Layer[Integers], rows: Rows, ranges: dict[str, Slot]) -> None:
    """Write the call on AMX tiles: see kernels/amx/amx_dynamic.py."""
    from ....kernels.amx.pick_amx import amx_args, pick_amx_dynamic

    g, how = layer.merged(e.tier)
    choice = all_lines(e, layer.numbers, how, pick_amx_dynamic(g, e.threads))
    panels = e.packed(_panels, layer.numbers, how, choice.runs, choice.run)
    slots = {**tile_slots(e, choice, rows, layer.ldy, panels), **ranges, **epilogue(e, node, rows.start)}
    e.kernel("amx_dynamic", choice.params, amx_args(choice, layer.zero, **slots), share=part_of(e, layer.pixels))


def _panels(numbers: Integers, how: Arrangement, runs: int, length: int) -> np.ndarray:
    from ....kernels.amx.pack_amx import pack_amx
    from ....kernels.amx.rows import DYNAMIC_NT

    weights = numbers.arranged(how).weights.reshape(len(numbers.weights), -1)
    sums = folded_bias(weights, np.zeros(len(weights), np.int64), -1, numbers.zeros)
    head = [v.reshape(how.merged, -1) for v in (sums, numbers.multipliers, numbers.bias)]
    return pack_amx(tile_lines(numbers, how, runs, length)[0], head, DYNAMIC_NT, "words")


def candidates(
    dot: Callable[..., None], conv: Callable[..., None], tiles: Callable[..., None]
) -> tuple[Candidate[Layer[Integers]], ...]:
    """By what writes the calls of each, with the caller's ranges."""
    return (
        Candidate("dot_dynamic", lambda layer, tier: layer.form == "dense", cycles, dot),
        Candidate("conv_dynamic", lambda layer, tier: layer.form == "conv", cycles, conv),
        Candidate("amx_dynamic", tiles_suit, tile_cycles, tiles),
    )
