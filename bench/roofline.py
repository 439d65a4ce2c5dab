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
    from fastgraph.kernels.lang import fma

    return _sum_loop(tier, lambda total: fma(total, 0.5, 1.0))


def _dot_loop(tier: Tier) -> Any:
    from fastgraph.kernels.isa.integer import dot_bytes
    from fastgraph.kernels.lang import F32, I32

    i32 = I32.vector(tier.lanes)
    return _sum_loop(tier, lambda total: dot_bytes(total.bits(I32), i32(3), i32(5)).bits(F32))


def _sum_loop(tier: Tier, step: Any) -> Any:
    """A kernel that repeats total = step(total) on CHAINS vectors."""
    from fastgraph.kernels.lang import F32, I64, repeat, traced

    f32 = F32.vector(tier.lanes)

    @traced
    def loop(rounds: Any, sums: Any) -> None:
        places = [F32.at(sums) + n * tier.lanes for n in range(CHAINS)]
        new = repeat(rounds, [f32[place] for place in places], lambda _, kept: [step(total) for total in kept])
        for place, value in zip(places, new, strict=True):
            f32[place] = value

    def kernel(args, thread, threads):  # type: ignore[no-untyped-def]
        loop(I64[args], I64[args + 8])

    return kernel


def _stream(tier: Tier, copies: bool) -> Any:
    """A kernel that reads, or copies, `count` blocks of WIDE vectors, `times` times over."""
    from fastgraph.kernels.lang import F32, I64, repeat, traced

    f32, block = F32.vector(tier.lanes), tier.lanes * WIDE

    @traced
    def read(source: Any, target: Any, count: Any) -> None:
        def added(i: Any, sums: Any) -> Any:
            place = F32.at(source) + i * block
            return [total + f32[place + n * tier.lanes] for n, total in enumerate(sums)]

        for n, total in enumerate(repeat(count, [f32(0)] * WIDE, added)):
            f32[F32.at(target) + n * tier.lanes] = total

    @traced
    def copy(source: Any, target: Any) -> None:
        for n in range(WIDE):
            f32[F32.at(target) + n * tier.lanes] = f32[F32.at(source) + n * tier.lanes]

    def reads(args, thread, threads):  # type: ignore[no-untyped-def]
        for _ in range(I64[args + 24]):
            read(I64[args], I64[args + 8], I64[args + 16])

    def copy_all(args, thread, threads):  # type: ignore[no-untyped-def]
        for _ in range(I64[args + 24]):
            for i in range(I64[args + 16]):
                copy(I64[args] + i * block * 4, I64[args + 8] + i * block * 4)

    return copy_all if copies else reads


def main(tier: Tier) -> None:
    figures: list[tuple[str, Callable[[], float], str]] = [("f32", lambda: peak_macs(tier), "GMAC/s")]
    if tier.byte_dot:
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
