"""What this machine can do, measured: multiply-adds in registers, and moving memory of a given size."""

from __future__ import annotations

import ctypes
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
from fastgraph.kernels.isa.tiers import Tier

from fastgraph.runtime.link import link

CHAINS = 12
"""Independent sums: more than the latency of a multiply-add times the number of units."""


@cache
def peak_macs(tier: Tier) -> float:
    """f32 multiply-adds per second on one core, the best of several tries."""
    from fastgraph.kernels.build import build

    code = build(_fma_loop(tier), "fma_loop", tier)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(link({"fma_loop": code})["fma_loop"])
    rounds = 2_000_000
    record = np.array([rounds, 0, 0], np.int64)
    sums = np.zeros(CHAINS * tier.lanes, np.float32)
    record[1] = sums.ctypes.data
    return rounds * CHAINS * tier.lanes / min(_seconds(lambda: call(record.ctypes.data, 0, 1)) for _ in range(20))


@cache
def bandwidth(nbytes: int) -> float:
    """Bytes per second, read and written together, of copying within a working set of `nbytes`."""
    source = np.ones(max(nbytes // 8, 64), np.float32)
    target = np.empty_like(source)
    times = max(1, int(1e7 / source.nbytes))

    def copy() -> None:
        for _ in range(times):
            np.copyto(target, source)

    return 2 * source.nbytes * times / min(_seconds(copy) for _ in range(20))


def _seconds(call: Any) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _fma_loop(tier: Tier) -> Any:
    from fastgraph.kernels.isa.vector import I64, Vector, arg, emits

    @emits
    def loop(b, rounds, sums):  # type: ignore[no-untyped-def]
        v = Vector(b, tier)
        target = v.pointer(sums)
        before, body, after = b.block, b.append_basic_block("body"), b.append_basic_block("after")
        start = [v.load(v.at(target, n * tier.lanes)) for n in range(CHAINS)]
        b.branch(body)
        b.position_at_end(body)
        i = b.phi(I64)
        kept = [b.phi(v.type) for _ in range(CHAINS)]
        new = [v.fma(k, v.const(0.5), v.const(1.0)) for k in kept]
        more = b.add(i, I64(1))
        i.add_incoming(I64(0), before)
        i.add_incoming(more, body)
        for k, s, n in zip(kept, start, new, strict=True):
            k.add_incoming(s, before)
            k.add_incoming(n, body)
        b.cbranch(b.icmp_signed("<", more, rounds), body, after)
        b.position_at_end(after)
        for n, value in enumerate(new):
            v.store(value, v.at(target, n * tier.lanes))

    def kernel(args, thread, threads):  # type: ignore[no-untyped-def]
        loop(arg(args, 0), arg(args, 1))

    return kernel
