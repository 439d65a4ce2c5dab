"""Matrices with zeros above, or below, a diagonal."""

from __future__ import annotations

from collections.abc import Callable

from ..core.record import reader
from ..isa.byte_ops import copy_run, fill_run
from ..isa.tiers import Tier
from ..lang import I64, larger, remainder, share, smaller
from .rows import TRIANGLE


def triangle(tier: Tier) -> Callable:
    """The kernel: row i keeps the columns from i + k on (`upper`), or those up to i + k."""
    fields = reader(TRIANGLE)

    def kernel(args, thread, threads):
        r = fields(args)
        k = smaller(larger(I64[r.k], 0 - r.rows), r.columns)
        begin, end = share(r.matrices * r.rows, thread, threads)
        line = r.columns * r.size
        for row in range(begin, end):
            edge = remainder(row, r.rows) + k + 1 - r.upper
            edge = r.size * larger(smaller(edge, r.columns), 0)
            to, at = r.dst + row * line, r.src + row * line
            if r.upper != 0:
                fill_run(to, 0, edge)
                copy_run(to + edge, at + edge, line - edge)
            else:
                copy_run(to, at, edge)
                fill_run(to + edge, 0, line - edge)

    return kernel
