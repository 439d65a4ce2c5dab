"""Shapes -> tiles of the kernels for layers of bytes that are rounded at run time. Pure arithmetic."""

from __future__ import annotations

from ..isa.tiers import Tier
from .pick_conv import ConvPiece, Geometry, conv_pieces, upright
from .pick_dot import L2, DotPiece, Product, dot_pieces
from .pick_int8 import INT8_COSTS

WORTH_A_PART = 8192
"""Numbers of an image that are enough for threads to share them."""


def parts_of(images: int, count: int, threads: int) -> int:
    """Parts of each image of `count` numbers, whose extremes are found separately."""
    return threads if images < threads and count >= WORTH_A_PART else 1


def pick_dot_dynamic(tier: Tier, product: Product, threads: int, per_row: bool, rowsum: bool) -> tuple[DotPiece, ...]:
    """The dot_dynamic calls. per_row: each row of A has a range of its own; rowsum: weights have zero points."""
    params = {"per_row": per_row, "rowsum": rowsum}
    return dot_pieces(tier, product, threads, INT8_COSTS[rowsum], params)


def pick_conv_dynamic(
    tier: Tier, g: Geometry, threads: int, rowsum: bool, l2: int = L2
) -> tuple[Geometry, tuple[ConvPiece, ...]]:
    """The conv_dynamic calls for a geometry of u8, and the geometry that they are for."""
    assert g.item == 1
    g = upright(g, l2)
    return g, conv_pieces(tier, g, threads, INT8_COSTS[rowsum], {"rowsum": rowsum}, l2)
