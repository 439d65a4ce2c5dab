"""Rows from computed places: indices from memory along one axis, or constant offset tables for every axis."""

from __future__ import annotations

from collections.abc import Callable

from ..core.record import reader
from ..isa.byte_ops import loader, mover, putter, run_copier, run_filler
from ..isa.loops import div_rem, larger, smaller, thread_range
from ..isa.tiers import Tier
from .outer_loops import outer_count, outer_fields
from .rows import GATHER, TAKE, TAKE_LOOP


def gather(tier: Tier, itemsize: int, index_size: int) -> Callable:
    """The kernel of y[o, i, :] = x[o, index[i], :]; negative indices count from the end of the axis.

    An index that is still out of range reads the nearest place of the axis instead and sets the int64 at
    `error` to 1 (nobody sets it to 0 here). `itemsize` is the run's bytes when those are 1, 2, 4 or 8, else
    0: then `run` counts.
    """
    move, index, put, fields = _row(tier, itemsize), loader(index_size), putter(8), reader(GATHER)

    def kernel(args, thread, threads):
        r = fields(args)
        begin, end = thread_range(r.outer * r.count, thread, threads)
        bad = 0
        while begin < end:
            o, i = div_rem(begin, r.count)
            stop = smaller(r.count, i + end - begin)
            begin += stop - i
            to, at = r.dst + o * r.outer_d, r.src + o * r.outer_s
            while i < stop:
                place = index(r.index + i * index_size)
                place += r.axis if place < 0 else 0
                inside = smaller(r.axis - 1, larger(0, place))
                bad |= inside ^ place
                if r.axis > 0:
                    move(to + i * r.d, at + inside * r.s, r.run)
                i += 1
        if bad != 0:
            put(r.error, 1)

    return kernel


def take(tier: Tier, itemsize: int) -> Callable:
    """The kernel of y[i, j, ...] = x[t0[i] + t1[j] + ...]: int64 byte offsets from one table per axis.

    The innermost axis moves elements of `itemsize` bytes, `d` apart. With itemsize 0 it moves runs instead:
    its table has (destination offset, source offset, bytes) for each. Where the source offsets' sum is
    negative comes `fill`, an element repeated to 8 bytes.
    """
    offset, line = loader(8), _runs(tier) if itemsize == 0 else _elements(itemsize)
    fields, outer, loop_fields = reader(TAKE), outer_count(TAKE), outer_fields(TAKE, TAKE_LOOP)

    def kernel(args, thread, threads):
        r = fields(args)
        begin, end = thread_range(r.rows * outer(args), thread, threads)
        while begin < end:
            rest, i = div_rem(begin, r.rows)
            stop = smaller(r.rows, i + end - begin)
            begin += stop - i
            to, base = r.dst, 0
            for k in range(r.rank):
                loop = loop_fields(args, k)
                rest, j = div_rem(rest, loop.n)
                base += offset(loop.table + 8 * j)
                to += j * loop.d
            line(to, r.src, base, r.table, i, stop, r.d, r.fill)

    return kernel


def _elements(itemsize: int) -> Callable:
    move, put, offset = mover(itemsize), putter(itemsize), loader(8)

    def elements(to, src, base, table, i, stop, d, bits):
        while i < stop:
            at = base + offset(table + 8 * i)
            if at >= 0:
                move(to + i * d, src + at)
            else:
                put(to + i * d, bits)
            i += 1

    return elements


def _runs(tier: Tier) -> Callable:
    copy_run, fill_run, offset = run_copier(tier), run_filler(tier), loader(8)

    def runs(to, src, base, table, i, stop, d, bits):
        while i < stop:
            entry = table + 24 * i
            at = base + offset(entry + 8)
            if at >= 0:
                copy_run(to + offset(entry), src + at, offset(entry + 16))
            else:
                fill_run(to + offset(entry), bits, offset(entry + 16))
            i += 1

    return runs


def _row(tier: Tier, itemsize: int) -> Callable:
    if itemsize == 0:
        return run_copier(tier)
    element = mover(itemsize)

    def move(dst, src, run):
        element(dst, src)

    return move
