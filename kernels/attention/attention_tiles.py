"""attention_tiles: attention by products of bf16 in AMX tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..amx.pack_amx import numbering
from ..isa.tiers import Tier
from ..lang import Value, either, over, pieces
from .attention_bf16 import Product, attention_of
from .pack_pairs import IN_TILES
from .pick_attention import LINE, PANEL, TILE
from .rows import ATTENTION_TILES


def make(tier: Tier) -> Callable[..., None]:
    """The kernel; its record is `rows.ATTENTION_TILES`."""
    return attention_of(ATTENTION_TILES, IN_TILES, _multiply(tier))


def _multiply(tier: Tier) -> Callable[..., None]:
    """multiply of `attention_of`."""
    a_tiles, b_tiles = numbering(2, 2)

    def multiply(r: Any, p: Product, adds: bool) -> None:
        (a, lda), (c, ldc), lines = p.a, p.c, pieces(p.n, PANEL)

        def product(count: int, row: Value) -> None:
            """Multiply one tile of rows, or two."""
            to, lefts = c + row * ldc, [a + (row + m * r.tile) * lda for m in range(count)]
            places = [(2 * m + n, to + m * r.tile * ldc + n * LINE) for m in range(count) for n in range(2)]
            for tile, place in places:
                if adds:
                    tier.isa.load(tile, place, ldc)
                else:
                    tier.isa.clear(tile)
            for line in over(lines):
                for n in range(2):
                    tier.isa.load(b_tiles[n], p.panel + line * (2 * TILE) + n * TILE, LINE)
                    for m in range(count):
                        if n == 0:
                            tier.isa.load(a_tiles[m], lefts[m] + line * LINE, lda)
                        tier.isa.multiply_reals(2 * m + n, a_tiles[m], b_tiles[n])
            for tile, place in places:
                tier.isa.store(tile, place, ldc)

        for row in over(0, p.rows, 2 * r.tile):
            with either(row + r.tile < p.rows, likely=True) as (two, one):
                with two:
                    product(2, row)
                with one:
                    product(1, row)

    return multiply
