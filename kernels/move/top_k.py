"""The k greatest or least along an axis, best first, and where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import reader
from ..isa.byte_ops import by_size, get, put, read, word, write
from ..isa.loops import div_rem, larger, smaller, thread_range
from ..isa.tiers import Tier
from ..isa.vector import emits
from .heap import place_of, popper, selector
from .rows import TOP_K, entry_bytes


def top_k(tier: Tier, wide: bool) -> Callable:
    """The kernel for [outer, n, inner], of elements of 8 bytes (`wide`) or of up to 4.

    Of equal ones the first is first; a NaN counts as the greatest.
    """
    fields, select, pop = reader(TOP_K), selector(tier, wide), popper(wide)
    place_at, entry = place_of(wide), entry_bytes(wide)

    def kernel(args, thread, threads):
        r = fields(args)
        n, k = r.n, r.k
        if r.count != 0:
            n = larger(smaller(get(r.count), n), 0)
        if r.wanted != 0:
            k = larger(smaller(get(r.wanted), k), 0)
        k = smaller(k, n)
        begin, end = thread_range(r.outer * r.inner, thread, threads)
        heap = r.scratch + thread * r.scratch_bytes
        for row in range(begin, end):
            o, column = div_rem(row, r.inner)
            x = r.x + r.size * (o * r.n * r.inner + column)
            first = o * r.k * r.inner + column
            if k > 0:
                select(heap, k, r.kind, x, r.size * r.inner, n, r.least)
            left = k
            while left > 0:
                pop(heap, left)
                left -= 1
            for j in range(k):
                place = place_at(heap + entry * j)
                put(r.places + 8 * (first + j * r.inner), place)
                _element(r.values + r.size * (first + j * r.inner), x + r.size * r.inner * place, r.size)
            for j in range(k, r.k):
                put(r.places + 8 * (first + j * r.inner), 0)
                _nothing(r.values + r.size * (first + j * r.inner), r.size)

    return kernel


@emits
def _element(b: Any, to: Any, at: Any, size: Any) -> None:
    by_size(b, size, lambda nbytes: write(b, read(b, at, word(nbytes)), to))


@emits
def _nothing(b: Any, to: Any, size: Any) -> None:
    by_size(b, size, lambda nbytes: write(b, word(nbytes)(0), to))
