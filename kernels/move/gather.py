"""Rows from computed places: indices from memory along one axis, or constant offset tables for every axis."""

from __future__ import annotations

from collections.abc import Callable

from numba import njit

from ..isa.tiers import Tier
from ..isa.vector import arg
from .runs import divided, larger, loader, mover, places, putter, run_copier, run_filler, share, smaller


def gather(tier: Tier, itemsize: int, index_size: int) -> Callable:
    """The kernel of y[o, i, :] = x[o, index[i], :]; negative indices count from the end of the axis.

    An index that is still out of range reads the nearest place of the axis instead and sets the int64 at
    `error` to 1 (nobody sets it to 0 here). `itemsize` is the run's bytes when those are 1, 2, 4 or 8, else
    0: then `run` counts.
    """
    move, index, put = _row(tier, itemsize), loader(index_size), putter(8)

    def kernel(args, thread, threads):
        dst, src, indices, error = arg(args, 0), arg(args, 1), arg(args, 2), arg(args, 3)
        count, axis, run, s, d = arg(args, 4), arg(args, 5), arg(args, 6), arg(args, 7), arg(args, 8)
        outer, outer_s, outer_d = arg(args, 9), arg(args, 10), arg(args, 11)
        begin, end = share(outer * count, thread, threads)
        bad = 0
        while begin < end:
            o, i = divided(begin, count)
            stop = smaller(count, i + end - begin)
            begin += stop - i
            to, at = dst + o * outer_d, src + o * outer_s
            while i < stop:
                place = index(indices + i * index_size)
                place += axis if place < 0 else 0
                inside = smaller(axis - 1, larger(0, place))
                bad |= inside ^ place
                if axis > 0:
                    move(to + i * d, at + inside * s, run)
                i += 1
        if bad != 0:
            put(error, 1)

    return kernel


def take(tier: Tier, itemsize: int) -> Callable:
    """The kernel of y[i, j, ...] = x[t0[i] + t1[j] + ...]: int64 byte offsets from one table per axis.

    The innermost axis moves elements of `itemsize` bytes, `d` apart. With itemsize 0 it moves runs instead:
    its table has (destination offset, source offset, bytes) for each. Where the source offsets' sum is
    negative comes `fill`, an element repeated to 8 bytes.
    """
    offset, line = loader(8), _runs(tier) if itemsize == 0 else _elements(itemsize)

    def kernel(args, thread, threads):
        dst, src, bits = arg(args, 0), arg(args, 1), arg(args, 2)
        rows, table, d, rank = arg(args, 3), arg(args, 4), arg(args, 5), arg(args, 6)
        begin, end = share(rows * places(args, 6, 3), thread, threads)
        while begin < end:
            rest, i = divided(begin, rows)
            stop = smaller(rows, i + end - begin)
            begin += stop - i
            to, base = dst, 0
            for k in range(rank):
                rest, j = divided(rest, arg(args, 7 + 3 * k))
                base += offset(arg(args, 8 + 3 * k) + 8 * j)
                to += j * arg(args, 9 + 3 * k)
            line(to, src, base, table, i, stop, d, bits)

    return kernel


def _elements(itemsize: int) -> Callable:
    move, put, offset = mover(itemsize), putter(itemsize), loader(8)

    @njit(inline="always")
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

    @njit(inline="always")
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

    @njit(inline="always")
    def move(dst, src, run):
        element(dst, src)

    return move
