"""attention_pairs: attention by products of pairs of bf16 in vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..gemm.pick_dot import max_rows
from ..gemm.results import Destination, target
from ..gemm.tile import ahead_of, bf16_arithmetic, even_rows, make_tile
from ..isa.tiers import Tier
from ..lang import F32, Value, either, outlined, over, pieces, smaller
from .attention_bf16 import Product, attention_of
from .pack_pairs import IN_VECTORS
from .pick_attention import NV, PANEL
from .rows import ATTENTION_PAIRS


def make(tier: Tier) -> Callable[..., None]:
    """The kernel; its record is `rows.ATTENTION_PAIRS`."""
    return attention_of(ATTENTION_PAIRS, IN_VECTORS, _multiply(tier))


def _multiply(tier: Tier) -> Callable[..., None]:
    """multiply of `attention_of`."""
    tiles = {(nv, adds): _tile(tier, nv, adds) for nv in (1, NV) for adds in (False, True)}

    def multiply(r: Any, p: Product, adds: bool) -> None:
        (a, lda), (c, ldc) = p.a, p.c
        with either(p.columns > tier.lanes, likely=True) as (two, one):
            for way, nv in ((two, NV), (one, 1)):
                with way:
                    name, product = f"product{nv}{adds}", tiles[nv, adds]
                    for i in over(0, p.rows, r.tile):
                        height = smaller(r.tile, p.rows - i)
                        words = pieces(p.n, 2)
                        outlined(name, None, product, height, a + i * lda, lda, words, p.panel, c + i * ldc, ldc)

    return multiply


def _tile(tier: Tier, nv: int, adds: bool) -> Callable[..., None]:
    """A product in a tile of nv of a panel's vectors."""
    f32 = F32.vector(tier.lanes)

    def added(dest: Destination, sums: list[Value]) -> list[Value]:
        places = [dest.c + dest.ldc * r + n * f32.size for r in range(dest.rows) for n in range(nv)]
        return [x + f32[place] for x, place in zip(sums, places, strict=True)]

    pairs = replace(bf16_arithmetic(tier, nv, 4), start=lambda _: [f32(0)] * nv, epilogue=False)
    pairs = replace(pairs, finish=added if adds else pairs.finish)
    tile = make_tile(tier, replace(pairs, rows=max_rows(tier, NV), head=0, vectors=NV), fetch="")

    def product(height: Value, a: Value, lda: Value, words: Value, panel: Value, c: Value, ldc: Value) -> None:
        into = target(c, ldc, PANEL, image=0, row=0, column=0)
        tile(None, height, even_rows(a, lda, words), panel, ahead_of(0, 0, 0, 0), into)

    return product
