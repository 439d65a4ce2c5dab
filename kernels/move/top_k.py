"""The k greatest or least elements along an axis, best first, and their indices."""

from __future__ import annotations

from collections.abc import Callable

from ..core.record import fields
from ..isa.byte_ops import by_size
from ..isa.tiers import Tier
from ..lang import I64, Value, div_rem, larger, share, smaller, traced, word
from .heap import place_of, popper, selector
from .rows import TOP_K, entry_bytes


def top_k(tier: Tier, wide: bool) -> Callable:
    """The kernel for [outer, n, inner], of elements of 8 bytes (`wide`) or of up to 4.

    Of equal elements the first is first; NaN counts as the greatest.
    """
    select, pop = selector(tier, wide), popper(wide)
    entry = entry_bytes(wide)

    def kernel(args, thread, threads):
        r = fields(args, TOP_K)
        n, k = r.n, r.k
        if r.count != 0:
            n = larger(smaller(I64[r.count], n), 0)
        if r.wanted != 0:
            k = larger(smaller(I64[r.wanted], k), 0)
        k = smaller(k, n)
        begin, end = share(r.outer * r.inner, thread, threads)
        heap = r.scratch + thread * r.scratch_bytes
        for row in range(begin, end):
            o, column = div_rem(row, r.inner)
            x = r.x + r.size * (o * r.n * r.inner + column)
            first = o * r.k * r.inner + column
            if k > 0:
                select(heap, k, (r.kind, x, r.size * r.inner), n, r.least)
            left = k
            while left > 0:
                pop(heap, left)
                left -= 1
            for j in range(k):
                place = place_of(wide, heap + entry * j)
                I64[r.places + 8 * (first + j * r.inner)] = place
                _element(r.values + r.size * (first + j * r.inner), x + r.size * r.inner * place, r.size)
            for j in range(k, r.k):
                I64[r.places + 8 * (first + j * r.inner)] = 0
                _nothing(r.values + r.size * (first + j * r.inner), r.size)

    return kernel


@traced
def _element(to: Value, at: Value, size: Value) -> None:
    def copy(nbytes: int) -> None:
        item = word(nbytes)
        item[to] = item[at]

    by_size(size, copy)


@traced
def _nothing(to: Value, size: Value) -> None:
    def clear(nbytes: int) -> None:
        word(nbytes)[to] = 0

    by_size(size, clear)
