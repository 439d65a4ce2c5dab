"""Constant pad: every destination byte is written once, row by row."""

from __future__ import annotations

from ..core.record import fields
from ..isa.byte_ops import copy_run, fill_run
from ..lang import div_rem, every_tier, share
from .outer_loops import outer_count, outer_fields
from .rows import PAD, PAD_LOOP

_loop = outer_fields(PAD, PAD_LOOP)


@every_tier
def pad(args, thread, threads):
    """The kernel that writes rows of fill, run, fill; rows outside of the source are fill only."""
    r = fields(args, PAD)
    begin, end = share(outer_count(args, PAD), thread, threads)
    while begin < end:
        rest, to, at, inside = begin, r.dst, r.src, True
        begin += 1
        for k in range(r.rank):
            loop = _loop(args, k)
            rest, i = div_rem(rest, loop.n)
            to += i * loop.d
            i -= loop.low
            at += i * loop.s
            inside = inside and 0 <= i < loop.inside
        if inside:
            fill_run(to, r.fill, r.left)
            copy_run(to + r.left, at, r.run)
            fill_run(to + r.left + r.run, r.fill, r.right)
        else:
            fill_run(to, r.fill, r.left + r.run + r.right)
