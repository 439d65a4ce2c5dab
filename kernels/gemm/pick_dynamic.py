"""Shapes -> tiles of the kernels for layers of bytes that are rounded at run time. Pure arithmetic."""

from __future__ import annotations

from ..isa.tiers import Tier
from .pick_conv import ConvPiece, Geometry, conv_pieces, upright
from .pick_dot import L2, Costs, DotPiece, Product, dot_pieces
from .pick_int8 import Sums, int8_costs

WORTH_A_PART = 8192
"""Numbers of an image that are enough for threads to share them."""


def parts_of(images: int, count: int, threads: int) -> int:
    """Parts of each image of `count` numbers, whose extremes are found separately."""
    return threads if images < threads and count >= WORTH_A_PART else 1


FEW_ROWS = {False: 64, True: 4}
"""Rows up to which weights, without and with zero points, stay bytes in memory where they are multiplied as 16 bits:
for few rows reading them takes longer than widening them, and summing the rows for their zero points.
"""


def stays_narrow(tier: Tier, m: int, k: int, zeros: bool) -> bool:
    """Whether weights for m rows of k bytes are packed as bytes; zeros: whether they have zero points, for which rows
    are summed, so that they must end with a word.
    """
    return not tier.byte_dot and m <= FEW_ROWS[zeros] and not (zeros and k % 4)


def pick_dot_dynamic(
    tier: Tier, product: Product, threads: int, per_row: bool, sums: Sums, narrow: bool = False, again: float = 0
) -> tuple[DotPiece, ...]:
    """The dot_dynamic calls. per_row: each row of A has a range of its own; narrow: as of pack_int8; again: as of
    `int8_costs`.
    """
    params = {"per_row": per_row, "narrow": narrow, **_params(sums)}
    return dot_pieces(tier, product, threads, _costs(sums, again), params)


def pick_conv_dynamic(
    tier: Tier, g: Geometry, threads: int, sums: Sums, again: float = 0
) -> tuple[Geometry, tuple[ConvPiece, ...]]:
    """The conv_dynamic calls for a geometry of u8, and the geometry that they are for; again: as of `int8_costs`."""
    assert g.item == 1
    g = upright(g, L2)
    return g, conv_pieces(tier, g, threads, _costs(sums, again), _params(sums), L2)


def _params(sums: Sums) -> dict[str, bool]:
    return {"rowsum": sums.rowsum, "small": sums.small}


def _costs(sums: Sums, again: float) -> Costs:
    return int8_costs(sums._replace(out="words"), again)._replace(halves=False)
