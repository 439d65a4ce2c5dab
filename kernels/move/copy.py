"""Strided N-d copy: slices, concat and split parts, expand and tile, crops, views."""

from __future__ import annotations

from collections.abc import Callable

from ..core.record import reader
from ..isa.byte_ops import mover, repeater, run_copier, run_filler
from ..isa.loops import div_rem, pieces, smaller, thread_range
from ..isa.tiers import Tier
from .outer_loops import outer_address, outer_count
from .rows import COPY


def copy(tier: Tier, mode: str, itemsize: int) -> Callable:
    """The kernel that copies rows of elements. Source and destination must not overlap.

    `mode` says how a row is laid out: "run", contiguous on both sides (then everything counts in bytes and
    itemsize is 1); "fill", one source element repeated; "step", any strides.
    """
    row, fields = _row(tier, mode, itemsize), reader(COPY)
    outer, address = outer_count(COPY), outer_address(COPY)

    def kernel(args, thread, threads):
        r = fields(args)
        total = outer(args) * r.rows
        begin, end, first, last = 0, total, 0, r.count
        if total >= 8 * threads:
            begin, end = thread_range(total, thread, threads)
        else:
            first, last = thread_range(pieces(r.count, 64), thread, threads)
            first, last = 64 * first, smaller(64 * last, r.count)
        while begin < end:
            o, i = div_rem(begin, r.rows)
            stop = smaller(r.rows, i + end - begin)
            begin += stop - i
            to, at = address(args, o, r.dst + first * r.step_d, r.src + first * r.step_s)
            while i < stop:
                row(to + i * r.row_d, at + i * r.row_s, last - first, r.step_s, r.step_d)
                i += 1

    return kernel


def _row(tier: Tier, mode: str, itemsize: int) -> Callable:
    if mode == "run":
        copy_run = run_copier(tier)

        def run(dst, src, n, s, d):
            copy_run(dst, src, n)

        return run
    if mode == "fill":
        fill_run, repeat = run_filler(tier), repeater(itemsize)

        def fill(dst, src, n, s, d):
            fill_run(dst, repeat(src), n * itemsize)

        return fill
    if mode != "step":
        raise ValueError(f"copy mode {mode!r} is none of run, fill, step")
    move = mover(itemsize)

    def step(dst, src, n, s, d):
        for i in range(n):
            move(dst + i * d, src + i * s)

    return step
