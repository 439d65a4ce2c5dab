"""Quantized convolutions, dense layers and products by a constant matrix: their candidates."""

from __future__ import annotations

import numpy as np

from ....ir import Node
from ....kernels.gemm.pack import Arrangement
from ....kernels.gemm.pick_dot import Product
from ....kernels.gemm.pick_int8 import (
    chains,
    pick_conv_int8,
    pick_dot_int8,
    pixels_together_int8,
    row_args,
    row_params,
    vector_cycles,
    word_of,
)
from ....kernels.isa.tiers import Tier
from ...choose import Candidate
from ...layer import Integers, Layer, together
from ...program import Ref
from ..emit import Rows
from ..registry import Emit, Slot
from ..window.depthwise_int8 import DEPTHWISE
from .calls import Columns, columns_of, conv_calls, dot_calls, panels, part_of

TILE_GAIN = 1.1
"""How many times faster tiles must be said to be."""


def _cycles(layer: Layer[Integers], tier: Tier) -> list[float]:
    return [vector_cycles(layer.merged(tier)[0])]


def _cycles_in_tiles(layer: Layer[Integers], tier: Tier) -> list[float]:
    """Twice as many for a single row, whose sums wait for themselves."""
    return [vector_cycles(layer.merged(tier)[0]) * (2 if layer.pixels == 1 else 1)]


def _dot(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    numbers, m = layer.numbers, layer.pixels
    k = numbers.weights[0].size

    def pack(columns: Columns) -> Ref:
        return e.packed(panels, e.tier, numbers, layer.zero, columns, k, 1, 1)

    pieces = pick_dot_int8(e.tier, Product(m, layer.n, k, 1, layer.ldx), numbers.out, numbers.rowsum, e.threads)
    dot_calls(
        e, "dot_int8", pieces, rows, pack, layer.n, part_of(node, layer),
        lda=layer.ldx, ldc=layer.ldy, m=m, k=-(-k // 4), **numbers.stored,
    )  # fmt: skip


def _row(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    numbers = layer.numbers
    k, zero = numbers.weights[0].size, layer.zero + 128 * layer.signed
    product = Product(1, layer.n, k, 1, layer.ldx)
    for piece in pick_dot_int8(e.tier, product, numbers.out, numbers.rowsum, e.threads, row=True):
        packed = e.packed(panels, e.tier, numbers, zero, columns_of(piece), k, 1, chains(piece.nv))
        args: dict[str, Slot] = {
            **row_args(piece, k, layer.signed),
            "a": rows.x,
            "b": packed,
            "c": rows.y,
            **numbers.stored,
        }
        e.kernel("row_int8", row_params(piece), args, share=part_of(node, layer) * piece.columns / layer.n)


def _conv(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    numbers, (g, how) = layer.numbers, layer.merged(e.tier)
    for part in together(g, how, pixels_together_int8(e.tier, g) if layer.ldy == g.n else 1):
        upright, pieces = pick_conv_int8(e.tier, part.g, numbers.out, numbers.rowsum, e.threads)

        def pack(columns: Columns, how: Arrangement = part.how, run: int = upright.run) -> Ref:
            return e.packed(_panels, e.tier, numbers, how, layer.zero, columns, run)

        conv_calls(
            e, "conv_int8", pieces, part, rows, pack, part_of(node, layer), ldy=layer.ldy * part.how.together,
            fill=word_of(layer.zero), **numbers.stored,
        )  # fmt: skip


def _panels(tier: Tier, numbers: Integers, how: Arrangement, zero: int, columns: Columns, run: int) -> np.ndarray:
    return panels(tier, numbers.arranged(how), zero, columns, run, how.merged, 1)


def _tiles_suit(layer: Layer[Integers], tier: Tier) -> bool:
    """Whether there are tiles, for weights without zero points."""
    return tier.tiles and layer.form != "depthwise" and not layer.signed and not layer.numbers.rowsum


def _tile_cycles(layer: Layer[Integers], tier: Tier) -> list[float]:
    from ....kernels.amx.pick_amx import tile_cycles

    return [tile_cycles(layer.merged(tier)[0])]


def _tiles(e: Emit, node: Node, layer: Layer[Integers], rows: Rows) -> None:
    from .amx import emit_amx

    emit_amx(e, node, layer, rows)


CANDIDATES = (
    Candidate("dot_int8", lambda layer, tier: layer.form == "dense" and not layer.signed, _cycles_in_tiles, _dot),
    Candidate("row_int8", lambda layer, tier: layer.form == "dense" and layer.pixels == 1, _cycles, _row),
    Candidate("conv_int8", lambda layer, tier: layer.form == "conv", _cycles, _conv),
    Candidate("amx_conv", _tiles_suit, _tile_cycles, _tiles, TILE_GAIN),
    *DEPTHWISE,
)
