"""What this machine can do, measured: multiply-adds in registers, and moving memory of a given size.

python bench/roofline.py [TIER]         prints them, on one core; default: the widest tier
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

from fastgraph import disturbance
from fastgraph.kernels.isa.tiers import Tier, choose, usable
from fastgraph.objects.link import link
from fastgraph.text import bytes_text, table
from fastgraph.tools.bench import pinned

CHAINS = 12
"""Independent sums: more than the latency of a multiply-add times the number of units."""

WIDE = 8
"""Vectors moved in each turn of the loop."""

SIZES = tuple(1 << n for n in (14, 18, 20, 22, 25, 28))


@cache
def peak_macs(tier: Tier) -> float:
    """f32 multiply-adds per second on one core, the best of several tries."""
    call = _native(_fma_loop(tier), "fma_loop", tier)
    rounds = 2_000_000
    record = np.array([rounds, 0, 0], np.int64)
    sums = np.zeros(CHAINS * tier.lanes, np.float32)
    record[1] = sums.ctypes.data
    return rounds * CHAINS * tier.lanes / min(_seconds(lambda: call(record.ctypes.data, 0, 1)) for _ in range(20))


@cache
def peak_macs_int8(tier: Tier) -> float:
    """u8 by s8 multiply-adds per second on one core by vpdpbusd, the best of several tries; tiers with vnni."""
    call = _native(_dot_loop(tier), "dot_loop", tier)
    rounds = 2_000_000
    sums = np.zeros(CHAINS * tier.lanes, np.int32)
    record = np.array([rounds, sums.ctypes.data], np.int64)
    return rounds * CHAINS * tier.lanes * 4 / min(_seconds(lambda: call(record.ctypes.data, 0, 1)) for _ in range(20))


@cache
def bandwidth(nbytes: int, tier: Tier) -> float:
    """Bytes per second: the better of reading, and of copying, within a working set of `nbytes`."""
    vector = 4 * tier.lanes * WIDE
    size = max(nbytes // vector, 2)
    memory = np.ones((size + 1) * vector // 4, np.float32)
    source = -(-memory.ctypes.data // 64) * 64
    half = size // 2
    rates = []
    for copies, count, target in ((0, size, source), (1, half, source + half * vector)):
        call = _native(_stream(tier, bool(copies)), "stream", tier)
        times = max(1, int(1e7 / (count * vector)))
        record = np.array([source, target, count, times], np.int64)
        best = min(_seconds(lambda call=call, record=record: call(record.ctypes.data, 0, 1)) for _ in range(20))
        rates.append((1 + copies) * count * vector * times / best)
    return max(rates)


def _native(kernel: Any, name: str, tier: Tier) -> Any:
    from fastgraph.kernels.core.build import build

    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(link({name: build(kernel, name, tier)})[name])


def _seconds(call: Any) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _fma_loop(tier: Tier) -> Any:
    return _sum_loop(tier, lambda v, total: v.fma(total, v.const(0.5), v.const(1.0)))


def _dot_loop(tier: Tier) -> Any:
    from fastgraph.kernels.isa.integer import dot_bytes

    def step(v: Any, total: Any) -> Any:
        return v.b.bitcast(dot_bytes(v, v.b.bitcast(total, v.itype), v.iconst(3), v.iconst(5)), v.type)

    return _sum_loop(tier, step)


def _sum_loop(tier: Tier, step: Any) -> Any:
    """A kernel that repeats total = step(total) on CHAINS vectors."""
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
        new = [step(v, k) for k in kept]
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


def _stream(tier: Tier, copies: bool) -> Any:
    """A kernel that reads, or copies, `count` blocks of WIDE vectors, `times` times over."""
    from fastgraph.kernels.isa.vector import I64, Vector, arg, emits

    block = tier.lanes * WIDE

    @emits
    def read(b, source, target, count):  # type: ignore[no-untyped-def]
        v = Vector(b, tier)
        before, body, after = b.block, b.append_basic_block("body"), b.append_basic_block("after")
        b.branch(body)
        b.position_at_end(body)
        i, sums = b.phi(I64), [b.phi(v.type) for _ in range(WIDE)]
        place = v.at(v.pointer(source), b.mul(i, I64(block)))
        new = [b.fadd(total, v.load(v.at(place, n * tier.lanes))) for n, total in enumerate(sums)]
        more = b.add(i, I64(1))
        for phi, start, next_ in zip([i, *sums], [I64(0), *[v.const(0)] * WIDE], [more, *new], strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(next_, body)
        b.cbranch(b.icmp_signed("<", more, count), body, after)
        b.position_at_end(after)
        for n, total in enumerate(new):
            v.store(total, v.at(v.pointer(target), n * tier.lanes))

    @emits
    def copy(b, source, target):  # type: ignore[no-untyped-def]
        v = Vector(b, tier)
        for n in range(WIDE):
            v.store(v.load(v.at(v.pointer(source), n * tier.lanes)), v.at(v.pointer(target), n * tier.lanes))

    def reads(args, thread, threads):  # type: ignore[no-untyped-def]
        for _ in range(arg(args, 3)):
            read(arg(args, 0), arg(args, 1), arg(args, 2))

    def copy_all(args, thread, threads):  # type: ignore[no-untyped-def]
        for _ in range(arg(args, 3)):
            for i in range(arg(args, 2)):
                copy(arg(args, 0) + i * block * 4, arg(args, 1) + i * block * 4)

    return copy_all if copies else reads


def main(tier: Tier) -> None:
    figures: list[tuple[str, Callable[[], float], str]] = [("f32", lambda: peak_macs(tier), "GMAC/s")]
    if tier.vnni:
        figures.append(("u8 by s8", lambda: peak_macs_int8(tier), "GMAC/s"))
    figures += [(f"memory, {bytes_text(size)}", lambda size=size: bandwidth(size, tier), "GB/s") for size in SIZES]
    rows, usage = [], []
    with pinned(1):
        for what, measure, unit in figures:
            before = disturbance.now()
            rows.append((what, f"{measure() / 1e9:.1f}", unit))
            usage.append([disturbance.now() - before])
    print("\n".join([f"one core, {tier.name}, best of 20", *table(rows, right=(1,))]))
    if said := disturbance.text(disturbance.report(usage, len(usage))):
        print(f"they may be low: {said}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tier", metavar="TIER", nargs="?", choices=[tier.name for tier in usable()])
    main(choose(parser.parse_args().tier))
