"""Measures engines: interleaved on one core, with the same inputs.

In each round every engine has a burst: one call that is not timed, then calls that are. In a burst the caches hold one
engine's data, as in a program that runs it alone; the order rotates from round to round. A burst begins when the
threads of the one before are at rest: pools spin for a while after a call, onnxruntime's for 60 ms. Drift of the
machine affects all engines, so the ratio of two is the median of the rounds' ratios. Disturbed rounds are dropped, and
those on a core that a neighbor shared, which probes in each burst find: see `disturbance`, `neighbor`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time, sleep, thread_time
from typing import Any, Protocol, TypeVar

import numpy as np

from ... import disturbance
from ...errors import InputError
from .. import neighbor
from ..engines import Engine
from . import energy
from .figures import ratio

BURST_SECONDS = 0.02
"""Seconds of a burst, for calls of any length, so that engines are disturbed alike."""
MOST_CALLS = 10_000
PARTS = 16
"""Parts of a burst, a call each at least, with probes of the core before each: none where energy is measured."""
MIN_ROUNDS = 5
"""Undisturbed rounds on a quiet core that a ratio needs."""
SPINS = 1.0
"""Seconds to wait for an engine's threads to come to rest, at most."""
STILL = 1e-4
"""Seconds of CPU time that threads at rest may have."""
TICK = 0.012
"""Seconds in which every system counts the CPU time of a thread that runs elsewhere: some do so 100 times a second."""
PATIENCE = 2
"""Multiple of the requested time or rounds after which to stop waiting for these rounds."""


class HasUsage(Protocol):
    """A round: the usage of each engine's burst."""

    @property
    def usage(self) -> tuple[disturbance.Usage, ...]: ...


Watched = TypeVar("Watched", bound=HasUsage)


@dataclass(frozen=True)
class Round:
    """By engine: seconds of each timed call, the usage of the burst, and its joules, where they are known."""

    bursts: tuple[np.ndarray, ...]
    usage: tuple[disturbance.Usage, ...]
    joules: tuple[float | None, ...]


@dataclass(frozen=True)
class Measured:
    """`times`, seconds of each timed call: by engine a list of bursts, one for each round that counts, the same for all
    engines if `paired`; `joules` of a call, by engine, the median of these rounds (None: not known). Of all rounds,
    `shares` by engine and the report of `disturbance`.
    """

    times: list[list[np.ndarray]]
    joules: list[float | None]
    shares: list[dict[str, float]]
    disturbance: dict[str, Any]

    @property
    def paired(self) -> bool:
        return bool(self.disturbance["kept"] != "bursts")

    def ratio(self, one: int, other: int) -> tuple[float, tuple[float, float] | None]:
        """The time of an engine / that of another, and its interval: see `figures.ratio`."""
        return ratio(self.times[one], self.times[other], self.paired)


@contextmanager
def pinned(threads: int, cpus: Sequence[int] = ()) -> Iterator[int | None]:
    """Keep this thread, and those made inside, on `cpus`, by default on one when `threads` is 1; the CPU, or None when
    there are several. InputError when this process may not run on the CPUs that were asked for.
    """
    before: set[int] = set()
    try:
        before = os.sched_getaffinity(0)
        chosen = _allowed(cpus, before) if cpus else {max(before)} if threads == 1 else before
        os.sched_setaffinity(0, chosen)
    except (AttributeError, OSError) as error:
        if cpus:
            raise InputError(f"--cpu {_listed(cpus)}: this system does not let a process choose ({error})") from None
        chosen = set()
    try:
        yield max(chosen) if len(chosen) == 1 and (cpus or threads == 1) else None
    finally:
        if before and chosen:
            os.sched_setaffinity(0, before)


def allowed_cpus() -> list[int]:
    """The CPUs that this process may use; none where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _allowed(cpus: Sequence[int], allowed: set[int]) -> set[int]:
    if not set(cpus) <= allowed:
        raise InputError(f"--cpu {_listed(cpus)}: this process may use the CPUs {_listed(sorted(allowed))}")
    return set(cpus)


def _listed(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus))


def measure(engines: Sequence[Engine], seconds: float, rounds: int | None = None, warmup: float = 0.0) -> Measured:
    """Rounds of bursts for so many seconds, or so many that are quiet, after each engine was called for `warmup`
    seconds. With too few of those others count, and the report says so.
    """
    for engine in engines:
        _warm(engine, warmup)
    others = of_others()
    lengths, folders = [_length(engine) for engine in engines], energy.packages()
    rest(others)
    kept, shares, report = repeated(lambda turn: _round(engines, lengths, turn, folders), seconds, rounds)
    return Measured(
        [[each.bursts[i] for each in own] for i, own in enumerate(kept)],
        [_a_call(own, i) for i, own in enumerate(kept)],
        shares,
        report,
    )


def repeated(
    one: Callable[[int], Watched], seconds: float, rounds: int | None
) -> tuple[list[list[Watched]], list[dict[str, float]], dict[str, Any]]:
    """Rounds that `one` makes, given how many there were: by engine those that count, the same ones where no burst has
    a probe; of all, shares by engine and a report.
    """
    done: list[Watched] = []
    probes: list[float] = []
    begun, clean = perf_counter(), 0
    while _goes_on(clean, len(done), perf_counter() - begun, seconds, rounds):
        done.append(one(len(done)))
        probes.append(disturbance.slowest(done[-1].usage))
        most = disturbance.MOST_SLOW * neighbor.least()
        clean = sum(probe < most for probe in probes)
    usage, needed, least = [each.usage for each in done], min(rounds or MIN_ROUNDS, MIN_ROUNDS), neighbor.least()
    kept = [[done[i] for i in own] for own in disturbance.kept(usage, needed, least)]
    shares = [disturbance.shares(used) for used in zip(*usage, strict=True)]
    return kept, shares, disturbance.report(usage, needed, least)


def _a_call(rounds: Sequence[Round], i: int) -> float | None:
    """Joules of a call of an engine, with the one of each burst that is not timed."""
    found = [used / (len(each.bursts[i]) + 1) for each in rounds if (used := each.joules[i]) is not None]
    return float(np.median(found)) if found else None


def _warm(engine: Engine, seconds: float) -> None:
    begun = perf_counter()
    while perf_counter() - begun < seconds:
        engine.call()


def _round(engines: Sequence[Engine], lengths: Sequence[int], turn: int, folders: Sequence[Path] = ()) -> Round:
    found = {}
    for k in range(len(engines)):
        i = (k + turn) % len(engines)
        first = neighbor.probe()
        others, read, before = of_others(), energy.reading(folders), disturbance.now()
        burst, probes = _burst(engines[i], lengths[i], PARTS * (not folders))
        used = disturbance.now() - before
        joules = energy.joules(folders, read, energy.reading(folders))
        rest(others)
        found[i] = burst, replace(used, probe=neighbor.of_burst([first, *probes, neighbor.probe()])), joules
    return Round(*zip(*(found[i] for i in range(len(engines))), strict=True))


def of_others() -> float:
    """CPU seconds that other threads of this process have had."""
    return process_time() - thread_time()


def rest(before: float) -> None:
    """Wait until the other threads of this process are at rest, if they ran since `of_others` was `before`."""
    end = perf_counter() + SPINS
    while (now := of_others()) - before > STILL and perf_counter() < end:
        before = now
        sleep(TICK)


def _length(engine: Engine) -> int:
    """Calls in a burst."""
    engine.call()
    typical = min(_burst(engine, 1)[0][0] for _ in range(3))
    return int(np.clip(BURST_SECONDS / typical, 1, MOST_CALLS))


def _goes_on(clean: int, tried: int, elapsed: float, seconds: float, rounds: int | None) -> bool:
    """Whether to do another round, by rounds that were quiet, rounds in all, and seconds so far."""
    if rounds:
        return clean < rounds and tried < PATIENCE * max(rounds, MIN_ROUNDS)
    if tried < MIN_ROUNDS or elapsed < seconds:
        return True
    return clean < MIN_ROUNDS and elapsed < PATIENCE * seconds


def _burst(engine: Engine, calls: int, parts: int = 0) -> tuple[np.ndarray, list[float]]:
    """Seconds of each call, and probes of the core before each of so many parts of them, but while other threads of
    this process run.
    """
    call, clock, others = engine.call, perf_counter, of_others()
    call()
    parts = min(calls, parts) if of_others() - others < STILL else 0
    times, probes = np.empty(calls), []
    for part in np.array_split(times, max(parts, 1)):
        if parts:
            probes.append(neighbor.probe(PARTS // parts))
        marks = [clock()]
        for _ in part:
            call()
            marks.append(clock())
        part[:] = np.diff(marks)
    return times, probes
