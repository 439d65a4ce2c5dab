"""Constant pad: every destination byte is written once, row by row."""

from __future__ import annotations

from collections.abc import Callable

from ..isa.tiers import Tier
from ..isa.vector import arg
from .runs import divided, places, run_copier, run_filler, share

_RANK = 6


def pad(tier: Tier) -> Callable:
    """The kernel that writes rows of fill, run, fill; rows outside of the source are all fill.

    The outer loops, innermost first, are (n, low, inside, src stride, dst stride): of n places in the
    destination, `inside` from `low` on exist in the source.
    """
    copy_run, fill_run = run_copier(tier), run_filler(tier)

    def kernel(args, thread, threads):
        dst, src, bits = arg(args, 0), arg(args, 1), arg(args, 2)
        left, run, right, rank = arg(args, 3), arg(args, 4), arg(args, 5), arg(args, _RANK)
        begin, end = share(places(args, _RANK, 5), thread, threads)
        while begin < end:
            rest, to, at, inside = begin, dst, src, True
            begin += 1
            for k in range(rank):
                slot = _RANK + 1 + 5 * k
                rest, i = divided(rest, arg(args, slot))
                to += i * arg(args, slot + 4)
                i -= arg(args, slot + 1)
                at += i * arg(args, slot + 3)
                inside = inside and 0 <= i < arg(args, slot + 2)
            if inside:
                fill_run(to, bits, left)
                copy_run(to + left, at, run)
                fill_run(to + left + run, bits, right)
            else:
                fill_run(to, bits, left + run + right)

    return kernel
