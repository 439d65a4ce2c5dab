"""Strided N-d copy: slices, concat and split parts, expand and tile, crops, views."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..core.record import fields
from ..isa.byte_ops import by_size, copy_run, fill_run, repeat
from ..isa.tiers import Tier
from ..lang import Register, Value, cases, div_rem, over, pieces, quotient, register, share, smaller, tier, traced, when
from ..lang.types import Type, word
from .outer_loops import outer_address, outer_count
from .rows import COPY
from .shuffles import pick, tile_lanes

NEAR = (2, 3, 4)
"""Elements from one to the next of a source that are read with those between them, a vector at a time."""


def copy(tier: Tier, mode: str) -> Callable:
    """The kernel that copies rows of elements. Source and destination must not overlap.

    `mode` is the layout of a row: "run", contiguous on both sides (then everything counts in bytes and itemsize is 1);
    "fill", one source element repeated; "step", any strides.
    """
    row = _row(mode)

    def kernel(args, thread, threads):
        r = fields(args, COPY)
        total = outer_count(args, COPY) * r.rows
        begin, end, first, last = 0, total, 0, r.count
        if total >= 8 * threads:
            begin, end = share(total, thread, threads)
        else:
            first, last = share(pieces(r.count, 64), thread, threads)
            first, last = 64 * first, smaller(64 * last, r.count)
        while begin < end:
            o, i = div_rem(begin, r.rows)
            stop = smaller(r.rows, i + end - begin)
            begin += stop - i
            to, at = outer_address(args, COPY, o, r.dst + first * r.step_d, r.src + first * r.step_s)
            while i < stop:
                row(to + i * r.row_d, at + i * r.row_s, last - first, r.step_s, r.step_d, r.itemsize)
                i += 1

    return kernel


def _row(mode: str) -> Callable:
    """row(dst, src, n, s, d, size): copy a row."""
    runs, fills = mode == "run", mode == "fill"

    def row(dst, src, n, s, d, size):
        if runs:
            copy_run(dst, src, n)
        elif fills:
            fill_run(dst, repeat(src, size), n * size)
        else:
            _step(dst, src, n, s, d, size)

    return row


@traced
def _step(dst: Value, src: Value, n: Value, s: Value, d: Value, size: Value) -> None:
    def elements(nbytes: int) -> None:
        done, item = register(0), word(nbytes)
        vector = item.vector(tile_lanes(tier(), nbytes))
        with when(d == nbytes):
            cases(s, {k * nbytes: partial(_near, dst, src, n, k, vector, done) for k in NEAR})
        for i in over(done.value, n):
            item[dst + i * d] = item[src + i * s]

    by_size(size, elements)


def _near(dst: Value, src: Value, n: Value, k: int, vector: Type, done: Register) -> None:
    """Every k-th of k * n elements, loaded in whole vectors but for the last, so that nothing beyond the last is
    read.
    """
    lanes, nbytes = vector.lanes, vector.bits // 8
    stop = quotient(n - 1, lanes) * lanes
    for i in over(0, stop, lanes):
        at = src + i * (k * nbytes)
        vectors = [vector[at + j * vector.size] for j in range(k)]
        vector[dst + i * nbytes] = pick(vectors, [divmod(j * k, lanes) for j in range(lanes)])
    done.value = stop
