"""Elements and runs at constant indices: a table of offsets for every axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.record import fields
from ..isa.byte_ops import by_size, copy_run, fill_run
from ..isa.tiers import Tier
from ..lang import I64, Value, div_rem, either, over, share, smaller, traced, word
from .outer_loops import outer_count, outer_fields
from .rows import TAKE, TAKE_LOOP


def take(tier: Tier, runs: bool) -> Callable:
    """The kernel of y[i, j, ...] = x[t0[i] + t1[j] + ...]: int64 byte offsets from one table per axis.

    The innermost axis moves elements of the record's `itemsize` bytes, with stride `d`; or with `runs`, its table has
    (destination offset, source offset, bytes) for each run. Where the sum of the source offsets is negative `fill` is
    written, an element repeated to 8 bytes.
    """
    line, loop_fields = _runs if runs else _elements, outer_fields(TAKE, TAKE_LOOP)

    def kernel(args, thread, threads):
        r = fields(args, TAKE)
        begin, end = share(r.rows * outer_count(args, TAKE), thread, threads)
        while begin < end:
            rest, i = div_rem(begin, r.rows)
            stop = smaller(r.rows, i + end - begin)
            begin += stop - i
            to = r.dst
            base: Any = 0
            for k in range(r.rank):
                loop = loop_fields(args, k)
                rest, j = div_rem(rest, loop.n)
                base += I64[loop.table + 8 * j]
                to += j * loop.d
            line(r, to, base, i, stop)

    return kernel


@traced
def _elements(r: Any, to: Value, base: Value, i: Value, stop: Value) -> None:
    def walk(nbytes: int) -> None:
        item = word(nbytes)
        fill = r.fill.unsigned.to(item)
        for j in over(i, stop):
            at, place = base + I64[r.table + j * 8], to + j * r.d
            with either(at >= 0) as (inside, outside):
                with inside:
                    item[place] = item[r.src + at]
                with outside:
                    item[place] = fill

    by_size(r.itemsize, walk)


def _runs(r, to, base, i, stop):
    while i < stop:
        entry = r.table + 24 * i
        at = base + I64[entry + 8]
        if at >= 0:
            copy_run(to + I64[entry], r.src + at, I64[entry + 16])
        else:
            fill_run(to + I64[entry], r.fill, I64[entry + 16])
        i += 1
