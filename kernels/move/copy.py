"""Strided N-d copy: slices, concat and split parts, expand and tile, crops, views."""

from __future__ import annotations

from collections.abc import Callable

from numba import njit

from ..isa.tiers import Tier
from ..isa.vector import arg
from .runs import divided, mover, pieces, place, places, repeater, run_copier, run_filler, share, smaller


def copy(tier: Tier, mode: str, itemsize: int) -> Callable:
    """The kernel that copies rows of elements. Source and destination must not overlap.

    `mode` says how a row is laid out: "run", contiguous on both sides (then everything counts in bytes and
    itemsize is 1); "fill", one source element repeated; "step", any strides.
    """
    row = _row(tier, mode, itemsize)

    def kernel(args, thread, threads):
        dst, src = arg(args, 0), arg(args, 1)
        count, s0, d0 = arg(args, 2), arg(args, 3), arg(args, 4)
        rows, s1, d1 = arg(args, 5), arg(args, 6), arg(args, 7)
        total = places(args, 8, 3) * rows
        begin, end, first, last = 0, total, 0, count
        if total >= 8 * threads:
            begin, end = share(total, thread, threads)
        else:
            first, last = share(pieces(count, 64), thread, threads)
            first, last = 64 * first, smaller(64 * last, count)
        while begin < end:
            outer, r = divided(begin, rows)
            stop = smaller(rows, r + end - begin)
            begin += stop - r
            to, at = place(args, 8, outer, dst + first * d0, src + first * s0)
            while r < stop:
                row(to + r * d1, at + r * s1, last - first, s0, d0)
                r += 1

    return kernel


def _row(tier: Tier, mode: str, itemsize: int) -> Callable:
    if mode == "run":
        copy_run = run_copier(tier)

        @njit(inline="always")
        def run(dst, src, n, s, d):
            copy_run(dst, src, n)

        return run
    if mode == "fill":
        fill_run, repeat = run_filler(tier), repeater(itemsize)

        @njit(inline="always")
        def fill(dst, src, n, s, d):
            fill_run(dst, repeat(src), n * itemsize)

        return fill
    if mode != "step":
        raise ValueError(f"copy mode {mode!r} is none of run, fill, step")
    move = mover(itemsize)

    @njit(inline="always")
    def step(dst, src, n, s, d):
        for i in range(n):
            move(dst + i * d, src + i * s)

    return step
