"""Maxima of bf16 over sliding windows, channels last; bodies for the most common windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..isa.tiers import Tier
from ..lang import I16, cases, choose
from .pool import pooled
from .pool_any import pooled_any
from .rows import POOL_BF16
from .window import Place, nest, slots

TILED = ((2, 2), (3, 1), (3, 2), (5, 1))
"""(columns, stride in columns) of windows whose maxima are computed in tiles."""
KEY = 8
"""Above the strides among them."""


def make_pool(tier: Tier) -> Callable:
    """y[n, i, j, c] = the largest of the x[n, i stride_y + p dilation_y - pad_y, j stride_x + q dilation_x - pad_x, c]
    inside of the image, planes likewise; it passes over NaN, and gives 0 where there are 0 and -0.
    """
    kind = I16.vector(2 * tier.lanes)
    tiles = {size * KEY + stride: pooled(tier, POOL_BF16, kind, "max", size, stride) for size, stride in TILED}
    others = pooled_any(POOL_BF16, kind, "max")

    def row_of_outputs(place: Place) -> None:
        r = slots(place.args, POOL_BF16)
        bodies = {key: partial(row, place) for key, row in tiles.items()}
        tiled = (r.dilation_x == 1) & (r.stride_x < KEY)
        cases(choose(tiled, r.k_w * KEY + r.stride_x, 0), bodies, partial(others, place))

    return nest(POOL_BF16, row_of_outputs)
