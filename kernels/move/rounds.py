"""Parts of loops: slices by a number that is read at run time, and the count of rounds."""

from __future__ import annotations

from typing import Any

from ..core.primitives import put_flag
from ..core.record import fields
from ..isa.byte_ops import copy_run
from ..lang import I64, U8, every_tier, pieces, share, smaller
from .rows import ROUND, SLICE


@every_tier
def slice_(args, thread, threads):
    """The kernel that copies slice number `turn`: from one of many, or to its place among them; none if it is out of
    range.
    """
    r = fields(args, SLICE)
    turn = I64[r.turn]
    begin, end, first, last = 0, r.rows, 0, r.run
    if turn < 0 or turn >= r.turns:
        begin = end
    elif r.rows >= threads:
        begin, end = share(r.rows, thread, threads)
    else:
        first, last = share(pieces(r.run, 64), thread, threads)
        first, last = 64 * first, smaller(64 * last, r.run)
    to, at = r.dst + turn * r.turn_d + first, r.src + turn * r.turn_s + first
    for i in range(begin, end):
        copy_run(to + i * r.row_d, at + i * r.row_s, last - first)


@every_tier
def round_(args, thread, threads):
    """The kernel that sets the number of the next round of a loop, and whether there is one."""
    if thread == 0:
        r = fields(args, ROUND)
        turn: Any = 0
        if not r.first:
            turn = I64[r.turn] + 1
        I64[r.turn] = turn
        put_flag(r.go, turn < I64[r.limit] and U8[r.test] != 0)
