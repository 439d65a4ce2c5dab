"""Rows from computed places: indices from memory along one axis, or constant offset tables for every axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..core.record import reader
from ..isa.byte_ops import by_size, choose, copy_run, get, put, read, run_copier, run_filler, word, write
from ..isa.loops import div_rem, lesser, loop, smaller, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import I64, emits
from .outer_loops import outer_count, outer_fields
from .rows import GATHER, TAKE, TAKE_LOOP


def gather(tier: Tier, runs: bool) -> Callable:
    """The kernel of y[o, i, :] = x[o, index[i], :]; negative indices count from the end of the axis.

    An index that is still out of range reads the nearest place of the axis instead and sets the int64 at
    `error` to 1 (nobody sets it to 0 here). [:] are `runs` of any length, or else words.
    """
    fields, line = reader(GATHER), _gathered_runs(tier) if runs else _gathered_words

    def kernel(args, thread, threads):
        r = fields(args)
        begin, end = thread_range(r.outer * r.count, thread, threads)
        bad = 0
        while begin < end and r.axis > 0:
            o, i = div_rem(begin, r.count)
            stop = smaller(r.count, i + end - begin)
            begin += stop - i
            bad |= line(r, r.dst + o * r.outer_d, r.src + o * r.outer_s, i, stop)
        if bad != 0 or (r.axis == 0 and begin < end):
            put(r.error, 1)

    return kernel


def _gathered_runs(tier: Tier) -> Callable:
    @emits
    def line(b: Any, r: Any, to: Any, at: Any, i: Any, stop: Any) -> Any:
        bad, index = variable(b, I64(0)), variable(b, I64(0))
        with loop(b, i, stop, 1) as j:
            choose(b, r.index_size, {size: partial(_read_index, b, r, j, size, index) for size in (4, 8)})
            copy_run(b, tier, b.add(to, b.mul(j, r.d)), _place(b, r, at, b.load(index), bad), r.run)
        return b.load(bad)

    return line


@emits
def _gathered_words(b: Any, r: Any, to: Any, at: Any, i: Any, stop: Any) -> Any:
    bad, index = variable(b, I64(0)), variable(b, I64(0))

    def walk(nbytes: int, size: int) -> None:
        with loop(b, i, stop, 1) as j:
            _read_index(b, r, j, size, index)
            value = read(b, _place(b, r, at, b.load(index), bad), word(nbytes))
            write(b, value, b.add(to, b.mul(j, r.d)))

    by_size(b, r.run, lambda nbytes: choose(b, r.index_size, {size: partial(walk, nbytes, size) for size in (4, 8)}))
    return b.load(bad)


def _read_index(b: Any, r: Any, j: Any, size: int, to: Any) -> None:
    value = read(b, b.add(r.index, b.mul(j, I64(size))), word(size))
    b.store(value if size == 8 else b.sext(value, I64), to)


def _place(b: Any, r: Any, at: Any, index: Any, bad: Any) -> Any:
    """Where an index's place is; `bad` becomes another number than 0 when it is out of range."""
    place = b.add(index, b.select(b.icmp_signed("<", index, I64(0)), r.axis, I64(0)))
    least = b.select(b.icmp_signed(">", place, I64(0)), place, I64(0))
    inside = lesser(b, b.sub(r.axis, I64(1)), least)
    b.store(b.or_(b.load(bad), b.xor(inside, place)), bad)
    return b.add(at, b.mul(inside, r.s))


def take(tier: Tier, runs: bool) -> Callable:
    """The kernel of y[i, j, ...] = x[t0[i] + t1[j] + ...]: int64 byte offsets from one table per axis.

    The innermost axis moves elements of the record's `itemsize` bytes, `d` apart; or `runs`, then its table has
    (destination offset, source offset, bytes) for each. Where the source offsets' sum is negative comes `fill`, an
    element repeated to 8 bytes.
    """
    line = _runs(tier) if runs else _elements
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
                base += get(loop.table + 8 * j)
                to += j * loop.d
            line(r, to, base, i, stop)

    return kernel


@emits
def _elements(b: Any, r: Any, to: Any, base: Any, i: Any, stop: Any) -> None:
    def walk(nbytes: int) -> None:
        bits = r.fill if nbytes == 8 else b.trunc(r.fill, word(nbytes))
        with loop(b, i, stop, 1) as j:
            at, place = b.add(base, read(b, b.add(r.table, b.mul(j, I64(8))), I64)), b.add(to, b.mul(j, r.d))
            with b.if_else(b.icmp_signed(">=", at, I64(0))) as (inside, outside):
                with inside:
                    write(b, read(b, b.add(r.src, at), word(nbytes)), place)
                with outside:
                    write(b, bits, place)

    by_size(b, r.itemsize, walk)


def _runs(tier: Tier) -> Callable:
    copy, fill = run_copier(tier), run_filler(tier)

    def runs(r, to, base, i, stop):
        while i < stop:
            entry = r.table + 24 * i
            at = base + get(entry + 8)
            if at >= 0:
                copy(to + get(entry), r.src + at, get(entry + 16))
            else:
                fill(to + get(entry), r.fill, get(entry + 16))
            i += 1

    return runs
