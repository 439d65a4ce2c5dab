"""Candidates for layers of bytes whose results are f32: dot_dynamic, conv_dynamic and, on AMX tiles, amx_dynamic.

Callers say by which ranges x was rounded: those that were computed, or the one that its type has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import Arrangement
from ....kernels.gemm.pick_dot import Product
from ....kernels.gemm.pick_dynamic import pick_conv_dynamic, pick_dot_dynamic
from ....kernels.gemm.pick_int8 import word_of
from ...choose import Candidate
from ...layer import Integers, Layer, RowPart
from ...quantized import folded_bias, scales
from ..emit import Rows
from ..epilogue import epilogue, product_ending
from ..registry import Emit, Slot
from .calls import conv_calls, dense_sizes, dot_calls, part_of, tile_slots
from .layer_int8 import all_lines, cycles, packed, tile_cycles, tile_lines, tiles_suit, words_of


class Rounding(NamedTuple):
    """How a layer's x was rounded: the slots `rows.RANGES`; how many images the rows of a dense layer are; the word of
    padding; narrow: of `pack_int8.Words`, for a dense layer.
    """

    slots: dict[str, Slot]
    images: int
    fill: int = 0
    narrow: bool = False


def by_type(e: Emit, node: Node, layer: Layer[Integers]) -> Rounding:
    """The rounding of x that its quantization says."""
    found = e.packed(_range_bytes, float(scales(node.x, 1)[0]), layer.zero)
    slots: dict[str, Slot] = {"ranges": found, "per_image": 0, "per_row": 0}
    return Rounding(slots, layer.window.images, word_of(layer.zero))


def _range_bytes(scale: float, zero: int) -> np.ndarray:
    """One range, as gemm.rows.RANGE_BYTES says."""
    step = np.array([scale, 0, 1 / scale, zero - 128], np.float32)
    step.view(np.int32)[1] = -zero
    return step


def _dot(e: Emit, node: Node, layer: Layer[Integers], rows: Rows, x: Rounding) -> None:
    ending, (ranges, images, _, narrow) = product_ending(e, node, rows.start), x
    k, (sums, again) = layer.numbers.weights[0].size, layer.numbers.sums(e.tier)
    narrow = narrow and not sums.small
    sums = sums._replace(rowsum=layer.numbers.rowsum(e.tier, narrow))
    product = Product(layer.pixels // images, layer.n, k, images, layer.ldx, bool(ending["later"]))
    pieces = pick_dot_dynamic(e.tier, product, e.threads, bool(ranges["per_row"]), sums, narrow, again)
    words = words_of(k, sums)._replace(narrow=narrow)
    pack, sizes = packed(e, layer, Arrangement(), words), dense_sizes(layer, images, -(-k // 4))
    dot_calls(e, layer, rows, "dot_dynamic", pieces, pack, **sizes, **ranges, **ending)


def _conv(e: Emit, node: Node, layer: Layer[Integers], rows: Rows, x: Rounding) -> None:
    g, how = layer.merged(e.tier)
    sums, again = layer.numbers.sums(e.tier)
    g, pieces = pick_conv_dynamic(e.tier, g, e.threads, sums, again)
    own = {"fill": x.fill, **x.slots, **product_ending(e, node, rows.start)}
    conv_calls(
        e, layer, rows, "conv_dynamic", pieces, RowPart(g, how), packed(e, layer, how, words_of(g.run, sums)), **own
    )


def _tiles(e: Emit, node: Node, layer: Layer[Integers], rows: Rows, x: Rounding) -> None:
    """The call on AMX tiles: see kernels/amx/amx_dynamic.py."""
    from ....kernels.amx.pick_amx import amx_args, pick_amx_dynamic

    if layer.form == "dense":
        split = layer._replace(window=layer.window._replace(images=x.images))
        layer = split.of_rows(layer.pixels, layer.ldx, layer.ldy)
    g, how = layer.merged(e.tier)
    choice = all_lines(e, layer.numbers, how, pick_amx_dynamic(g, e.threads))
    panels = e.packed(_panels, layer.numbers, how, choice.runs, choice.run)
    slots = {**tile_slots(e, choice, rows, layer.ldy, panels), **x.slots, **epilogue(e, node, rows.start)}
    slots["y_y"] = choice.fields["out_w"] * layer.ldy
    e.kernel("amx_dynamic", choice.params, amx_args(choice, layer.zero, **slots), share=part_of(e, layer.pixels))


def _panels(numbers: Integers, how: Arrangement, runs: int, length: int) -> np.ndarray:
    from ....kernels.amx.pack_amx import pack_amx
    from ....kernels.amx.rows import DYNAMIC_NT

    weights = numbers.arranged(how).weights.reshape(len(numbers.weights), -1)
    sums = folded_bias(weights, np.zeros(len(weights), np.int64), -1, numbers.zeros)
    head = [v.reshape(how.merged, -1) for v in (sums, numbers.multipliers, numbers.bias)]
    return pack_amx(tile_lines(numbers, how, runs, length)[0], head, DYNAMIC_NT, "words")


CANDIDATES: tuple[Candidate[Layer[Integers]], ...] = (
    Candidate("dot_dynamic", lambda layer, tier: layer.form == "dense", cycles, _dot),
    Candidate("conv_dynamic", lambda layer, tier: layer.form == "conv", cycles, _conv),
    Candidate("amx_dynamic", tiles_suit, tile_cycles, _tiles),
)
"""What they emit takes a Rounding."""
