"""Strided N-d copy: slices, concat and split parts, expand and tile, crops, views."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir

from ..core.record import reader
from ..isa.byte_ops import by_size, choose, read, repeat, run_copier, run_filler, word, write
from ..isa.loops import div_rem, loop, pieces, smaller, thread_range, variable
from ..isa.tiers import Tier
from ..isa.vector import I64, emits
from .outer_loops import outer_address, outer_count
from .rows import COPY
from .shuffles import pick, tile_lanes

NEAR = (2, 3, 4)
"""Elements from one to the next of a source that are read with those between them, a vector at a time."""


def copy(tier: Tier, mode: str) -> Callable:
    """The kernel that copies rows of elements. Source and destination must not overlap.

    `mode` says how a row is laid out: "run", contiguous on both sides (then everything counts in bytes and
    itemsize is 1); "fill", one source element repeated; "step", any strides.
    """
    row, fields = _row(tier, mode), reader(COPY)
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
                row(to + i * r.row_d, at + i * r.row_s, last - first, r.step_s, r.step_d, r.itemsize)
                i += 1

    return kernel


def _row(tier: Tier, mode: str) -> Callable:
    if mode == "run":
        copy_run = run_copier(tier)

        def run(dst, src, n, s, d, size):
            copy_run(dst, src, n)

        return run
    if mode == "fill":
        fill_run = run_filler(tier)

        def fill(dst, src, n, s, d, size):
            fill_run(dst, repeat(src, size), n * size)

        return fill
    if mode == "step":
        return _step(tier)
    raise ValueError(f"copy mode {mode!r} is none of run, fill, step")


def _step(tier: Tier) -> Callable:
    @emits
    def step(b: Any, dst: Any, src: Any, n: Any, s: Any, d: Any, size: Any) -> None:
        def elements(nbytes: int) -> None:
            done = variable(b, I64(0))
            kind = ir.VectorType(ir.IntType(8 * nbytes), tile_lanes(tier, nbytes))
            with b.if_then(b.icmp_signed("==", d, I64(nbytes))):
                choose(b, s, {k * nbytes: partial(_near, b, dst, src, n, k, kind, done) for k in NEAR})
            with loop(b, b.load(done), n, 1) as i:
                write(b, read(b, b.add(src, b.mul(i, s)), word(nbytes)), b.add(dst, b.mul(i, d)))

        by_size(b, size, elements)

    return step


def _near(b: Any, dst: Any, src: Any, n: Any, k: int, kind: Any, done: Any) -> None:
    """Every k-th of k * n elements, in whole vectors but for the last ones: what lies behind the last isn't read."""
    lanes, nbytes = kind.count, kind.element.width // 8
    stop = b.mul(b.sdiv(b.sub(n, I64(1)), I64(lanes)), I64(lanes))
    with loop(b, 0, stop, lanes) as i:
        at = b.add(src, b.mul(i, I64(k * nbytes)))
        vectors = [read(b, b.add(at, I64(j * lanes * nbytes)), kind) for j in range(k)]
        write(b, pick(b, vectors, [divmod(j * k, lanes) for j in range(lanes)]), b.add(dst, b.mul(i, I64(nbytes))))
    b.store(stop, done)
