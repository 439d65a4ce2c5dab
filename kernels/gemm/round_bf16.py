"""round_bf16: rows of f32 as rows of pairs of bf16, which products of bf16 read."""

from __future__ import annotations

from collections.abc import Callable

from ..core.record import fields
from ..isa.tiers import Tier
from ..lang import BF16, F32, Value, along, over, share, shuffle, smaller, traced
from .rows import ROUND_BF16

COLORS = 3
"""Channels of pixels that are widened by whole vectors."""


def make_round(tier: Tier) -> Callable[..., None]:
    """The kernel; half to even, denormals become 0. A row that is longer than x's ends with zeros."""
    f32 = F32.vector(tier.lanes)
    bf16, pixels = BF16.like(f32), tier.lanes // 4
    widening = [pixel * COLORS + c if c < COLORS else tier.lanes for pixel in range(pixels) for c in range(4)]

    @traced
    def line(x: Value, y: Value, c: Value, width: Value) -> None:
        for some, i, mask in along(f32, 0, c):
            BF16.like(some)[y + 2 * i, mask] = some[x + 4 * i, mask].to(BF16)
        for _, i, mask in along(f32, c, width, 1):
            bf16[y + 2 * i, mask] = f32(0).to(BF16)

    @traced
    def colors(x: Value, y: Value, count: Value) -> None:
        for i in over(0, count, pixels):
            left = smaller(count - i, pixels)
            found = f32[x + (4 * COLORS) * i, f32.below(COLORS * left)]
            bf16[y + 8 * i, bf16.below(4 * left)] = shuffle(found, widening, f32(0)).to(BF16)

    def rounded(args: int, thread: int, threads: int) -> None:
        r = fields(args, ROUND_BF16)
        first, end = share(r.rows, thread, threads)
        x, y = r.x + 4 * first * r.ldx, r.y + 2 * first * r.ldy
        if r.ldx == COLORS and r.c == COLORS and r.ldy == COLORS + 1:
            colors(x, y, end - first)
        elif r.ldx == r.c and r.ldy == r.c:
            line(x, y, (end - first) * r.c, (end - first) * r.c)
        else:
            for i in range(end - first):
                line(x + 4 * i * r.ldx, y + 2 * i * r.ldy, r.c, r.ldy)

    return rounded
