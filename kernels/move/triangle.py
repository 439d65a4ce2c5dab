"""Matrices with zeros above, or below, a diagonal."""

from __future__ import annotations

from ..core.record import fields
from ..isa.byte_ops import copy_run, fill_run
from ..lang import I64, every_tier, larger, remainder, share, smaller
from .rows import TRIANGLE


@every_tier
def triangle(args, thread, threads):
    """The kernel: row i keeps the columns from i + k on (`upper`), or those up to i + k."""
    r = fields(args, TRIANGLE)
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
