"""Peaks of this machine, measured: multiply-adds in registers, and bytes moved within memory of a given size; and the
least time of a step by these."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ..errors import CompilerError
from ..kernels.isa.tiers import (
    BF16,
    F16,
    NUMPY,
    PAIRS,
    TOGETHER,
    Tier,
    has_pairs,
    multiplies_f16,
    multiplies_small,
    multiplies_tiles,
)
from ..objects.link import link

CHAINS = 12
"""Independent sums: more than the latency of a multiply-add times the number of units."""

WIDE = 8
"""Vectors moved in each turn of the loop."""

TRIES, TRYING = 60, 0.06

SIZES = tuple(1 << n for n in (14, 18, 20, 22, 25, 27))
"""Bytes of working sets, from the first cache to memory."""


@cache
def peak_macs(tier: Tier) -> float:
    """f32 multiply-adds per second on one core, the best of several tries."""
    return _peak(_fma_loop(tier), "fma_loop", tier, each=1)


@cache
def peak_macs_int8(tier: Tier) -> float:
    """u8 by s8 multiply-adds per second on one core, the best of several tries: four to a lane where the tier has such
    an instruction, eight where it sums products of small weights in 16 bits, else two, of numbers that were widened
    before.
    """
    each = 4 if tier.byte_dot else 4 * TOGETHER if multiplies_small(tier) else 2
    return _peak(_dot_loop(tier), "dot_loop", tier, each=each)


@cache
def peak_macs_bf16(tier: Tier) -> float:
    """Multiply-adds of pairs of bf16 per second on one core, the best of several tries; of CPUs with tiers.PAIRS."""
    return _peak(_pairs_loop(tier), "pairs_loop", tier, each=2)


def _peak(loop: Any, name: str, tier: Tier, each: int) -> float:
    """Multiply-adds per second of a `_sum_loop` whose step makes so many of `each` lane."""
    call, rounds = _native(loop, name, tier), 200_000
    sums = np.zeros(CHAINS * tier.lanes, np.float32)
    record = np.array([rounds, sums.ctypes.data], np.int64)
    return rounds * sums.size * each / _best(lambda: call(record.ctypes.data, 0, 1))


@cache
def peak_macs_tiles(tier: Tier, element: str = "") -> float:
    """Multiply-adds of tiles of bytes, or of an element, "bf16" or "f16", per second on one core, the best of several
    tries.
    """
    rows, line, rounds = 16, 64, 1000
    call = _native(_tile_loop(tier, element), "tile_loop", tier)
    operands = np.random.default_rng(0).uniform(0.5, 2, rows * line // 4).astype(np.float32)  # zeros are faster
    config = np.zeros(64, np.uint8)  # eight whole tiles
    config[0], config[16:32:2], config[48:56] = 1, line, rows
    record = np.array([rounds, config.ctypes.data, operands.ctypes.data], np.int64)
    return rounds * 4 * rows * rows * (line // (2 if element else 1)) / _best(lambda: call(record.ctypes.data, 0, 1))


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
        call = _streaming(tier, bool(copies))
        times = max(1, int(1e7 / (count * vector)))
        record = np.array([source, target, count, times], np.int64)
        best = _best(lambda call=call, record=record: call(record.ctypes.data, 0, 1))
        rates.append((1 + copies) * count * vector * times / best)
    return max(rates)


def reading(nbytes: int, times: int, tier: Tier) -> Callable[[], None]:
    """A call that reads a working set of `nbytes`, so many times."""
    vector = 4 * tier.lanes * WIDE
    memory = np.ones((nbytes + vector) // 4 + 16, np.float32)
    source = -(-memory.ctypes.data // 64) * 64
    call, record = _streaming(tier, False), np.array([source, source + nbytes, nbytes // vector, times], np.int64)

    def read(memory: np.ndarray = memory) -> None:  # kept here: the record has its address only
        call(record.ctypes.data, 0, 1)

    return read


def _native(kernel: Any, name: str, tier: Tier) -> Any:
    from ..kernels.core.build import build

    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(link({name: build(kernel, name, tier)})[name])


@cache
def _streaming(tier: Tier, copies: bool) -> Any:
    return _native(_stream(tier, copies), "stream", tier)


def _best(call: Any) -> float:
    """Seconds of the quickest of TRIES calls, or of those that begin within TRYING seconds."""
    marks = [perf_counter()]
    while len(marks) <= TRIES and marks[-1] - marks[0] < TRYING:
        call()
        marks.append(perf_counter())
    return float(np.diff(marks).min())


def _fma_loop(tier: Tier) -> Any:
    from ..kernels.lang import fma

    return _sum_loop(tier, lambda total: fma(total, 0.5, 1.0))


def _pairs_loop(tier: Tier) -> Any:
    from ..kernels.lang import I32

    i32 = I32.vector(tier.lanes)
    kernel = _sum_loop(tier, lambda total: tier.isa.dot_pairs(total, i32(0x3F003F00), i32(0x3F003F00)))
    kernel.needs = PAIRS
    return kernel


def _dot_loop(tier: Tier) -> Any:
    from ..kernels.isa.integer import dot_bytes, dot_halves, dot_small
    from ..kernels.lang import F32, I32

    i32 = I32.vector(tier.lanes)

    def step(total: Any) -> Any:
        sums = total.bits(I32)
        if tier.byte_dot:
            return dot_bytes(sums, i32(3), i32(5)).bits(F32)
        if multiplies_small(tier):
            return (sums + dot_small([sums] * TOGETHER, [i32(5 + i) for i in range(TOGETHER)])).bits(F32)
        return (sums + dot_halves(sums, i32(5))).bits(F32)

    return _sum_loop(tier, step)


def _sum_loop(tier: Tier, step: Any) -> Any:
    """A kernel that repeats total = step(total) on CHAINS vectors."""
    from ..kernels.lang import F32, I64, repeat, traced

    f32 = F32.vector(tier.lanes)

    @traced
    def loop(rounds: Any, sums: Any) -> None:
        places = [F32.at(sums) + n * tier.lanes for n in range(CHAINS)]
        new = repeat(rounds, [f32[place] for place in places], lambda _, kept: [step(total) for total in kept])
        for place, value in zip(places, new, strict=True):
            f32[place] = value

    def kernel(args, thread, threads):
        loop(I64[args], I64[args + 8])

    return kernel


def _tile_loop(tier: Tier, element: str) -> Any:
    """A kernel of `rounds` times four products of tiles in registers."""
    from ..kernels.lang import I64, over, traced

    a_tiles, b_tiles = (4, 5), (6, 7)
    multiply = partial(tier.isa.multiply_reals, element=element) if element else tier.isa.multiply

    @traced
    def loop(rounds: Any, config: Any, operands: Any) -> None:
        tier.isa.configure(config)
        for tile in (*a_tiles, *b_tiles):
            tier.isa.load(tile, operands, 64)
        for _ in over(rounds):
            for n in range(4):
                multiply(n, a_tiles[n // 2], b_tiles[n % 2])
        tier.isa.release()

    def kernel(args, thread, threads):
        loop(I64[args], I64[args + 8], I64[args + 16])

    if element:
        kernel.needs = {"bf16": BF16, "f16": F16}[element]  # type: ignore[attr-defined]
    return kernel


def _stream(tier: Tier, copies: bool) -> Any:
    """A kernel that reads, or copies, `count` blocks of WIDE vectors, `times` times over."""
    from ..kernels.lang import F32, I64, repeat, traced

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

    def reads(args, thread, threads):
        for _ in range(I64[args + 24]):  # type: ignore[call-overload]
            read(I64[args], I64[args + 8], I64[args + 16])

    def copy_all(args, thread, threads):
        for _ in range(I64[args + 24]):  # type: ignore[call-overload]
            for i in range(I64[args + 16]):  # type: ignore[call-overload]
                copy(I64[args] + i * block * 4, I64[args + 8] + i * block * 4)

    return copy_all if copies else reads


class MachinePeaks(NamedTuple):
    """Of one core, times `threads`: multiply-adds per second by what multiplies ("f32", "bytes", and where the CPU has
    them "pairs" of bf16, "tiles" of bf16, "f16 tiles", "byte tiles"), and pairs of (bytes of a working set, bytes per
    second within it), the smallest first. Tiles of several parts make as many products of bf16 of each multiply-add.
    """

    peaks: dict[str, float]
    rates: tuple[tuple[int, float], ...]

    @property
    def memory(self) -> float:
        """Bytes per second of the largest working set."""
        return self.rates[-1][1]

    def rate(self, nbytes: int) -> float:
        """Bytes per second of the smallest measured working set that has room for `nbytes`."""
        return next((rate for size, rate in self.rates if size >= nbytes), self.memory)


def machine_peaks(tier: Tier, threads: int = 1) -> MachinePeaks | None:
    """The peaks for a number of threads: each has a core of its own, but the memory is shared. Measured in about a
    second, when a process first asks. None where kernels can't be compiled.
    """
    try:
        own = _of_one_core(tier)
    except (CompilerError, ImportError):
        return None
    if own is None or threads == 1:
        return own
    many = [rate * (threads if size < SIZES[-1] else 1) for size, rate in own.rates]
    rates = tuple((size, rate) for (size, _), rate in zip(own.rates, many, strict=True))
    return MachinePeaks({unit: peak * threads for unit, peak in own.peaks.items()}, rates)


@cache
def _of_one_core(tier: Tier) -> MachinePeaks | None:
    if tier is NUMPY:
        return None
    rates = tuple((size, bandwidth(size, tier)) for size in SIZES)
    peaks = {unit: peak() for unit, peak in measures(tier).items()}
    if "tiles" in peaks:
        peaks |= {"tiles of two parts": peaks["tiles"] / 3, "tiles of three parts": peaks["tiles"] / 6}
    return MachinePeaks(peaks, rates)


def measures(tier: Tier) -> dict[str, Callable[[], float]]:
    """The measurements of MachinePeaks.peaks by unit; those of tiles of several parts follow from them."""
    found = {"f32": lambda: peak_macs(tier), "bytes": lambda: peak_macs_int8(tier)}
    if has_pairs(tier):
        found["pairs"] = lambda: peak_macs_bf16(tier)
    if tier.tiles:
        found["byte tiles"] = lambda: peak_macs_tiles(tier)
    if multiplies_tiles(tier):
        found["tiles"] = lambda: peak_macs_tiles(tier, "bf16")
    if multiplies_f16(tier):
        found["f16 tiles"] = lambda: peak_macs_tiles(tier, "f16")
    return found
