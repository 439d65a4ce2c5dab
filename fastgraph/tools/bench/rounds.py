"""Measures engines: interleaved on one core, with the same inputs.

In each round every engine has a burst: one call that is not timed, then calls that are. In a burst the caches hold one
engine's data, as in a program that runs it alone; the order rotates from round to round. A burst begins when the
threads of the one before are at rest: pools spin for a while after a call, onnxruntime's for 60 ms. Drift of the
machine affects all engines, so the ratio of two is the median of the rounds' ratios. Disturbed rounds are dropped: see
`disturbance`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time, sleep, thread_time
from typing import Any, Protocol, TypeVar

import numpy as np

from ... import disturbance
from ...errors import InputError
from ..engines import Engine
from . import energy

BURST_SECONDS = 0.02
"""Seconds of a burst, for calls of any length, so that engines are disturbed alike."""
MOST_CALLS = 10_000
MIN_ROUNDS = 5
"""Undisturbed rounds that a ratio needs."""
SPINS = 1.0
"""Seconds to wait for an engine's threads to come to rest, at most."""
TICK = 0.012
"""Seconds in which every system counts the CPU time of a thread that runs elsewhere: some do so 100 times a second."""
PATIENCE = 2
"""Multiple of the requested time or rounds after which to stop waiting for undisturbed rounds."""


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
    """`times`, seconds of each timed call: by engine a list of bursts, one for each round that counts; `joules` of a
    call, by engine, the median of these rounds (None: not known). Of all rounds, `shares` by engine and the report of
    `disturbance`.
    """

    times: list[list[np.ndarray]]
    joules: list[float | None]
    shares: list[dict[str, float]]
    disturbance: dict[str, Any]


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


def _allowed(cpus: Sequence[int], allowed: set[int]) -> set[int]:
    if not set(cpus) <= allowed:
        raise InputError(f"--cpu {_listed(cpus)}: this process may use the CPUs {_listed(sorted(allowed))}")
    return set(cpus)


def _listed(cpus: Sequence[int]) -> str:
    return ",".join(map(str, cpus))


def measure(engines: Sequence[Engine], seconds: float, rounds: int | None = None, warmup: float = 0.0) -> Measured:
    """Rounds of bursts for so many seconds, or so many that are not disturbed, after each engine was called for
    `warmup` seconds. With too few of those all count, and the report says so.
    """
    for engine in engines:
        _warm(engine, warmup)
    others = of_others()
    lengths, folders = [_length(engine) for engine in engines], energy.packages()
    rest(others)
    kept, shares, report = repeated(lambda turn: _round(engines, lengths, turn, folders), seconds, rounds)
    return Measured(
        [list(bursts) for bursts in zip(*(each.bursts for each in kept), strict=True)],
        [_a_call(kept, i) for i in range(len(engines))],
        shares,
        report,
    )


def repeated(
    one: Callable[[int], Watched], seconds: float, rounds: int | None
) -> tuple[list[Watched], list[dict[str, float]], dict[str, Any]]:
    """Rounds that `one` makes, given how many there were: those that count; of all, shares by engine and a report."""
    done: list[Watched] = []
    begun, clean = perf_counter(), 0
    while _goes_on(clean, len(done), perf_counter() - begun, seconds, rounds):
        done.append(one(len(done)))
        clean += not disturbance.disturbed(done[-1].usage)
    usage, needed = [each.usage for each in done], min(rounds or MIN_ROUNDS, MIN_ROUNDS)
    kept = [done[i] for i in disturbance.kept(usage, needed)]
    return kept, [disturbance.shares(used) for used in zip(*usage, strict=True)], disturbance.report(usage, needed)


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
        others, read, before = of_others(), energy.reading(folders), disturbance.now()
        burst = _burst(engines[i], lengths[i])
        used = disturbance.now() - before
        found[i] = burst, used, energy.joules(folders, read, energy.reading(folders))
        rest(others)
    return Round(*zip(*(found[i] for i in range(len(engines))), strict=True))


def of_others() -> float:
    """CPU seconds that other threads of this process have had."""
    return process_time() - thread_time()


def rest(before: float) -> None:
    """Wait until the other threads of this process are at rest, if they ran since `of_others` was `before`."""
    end = perf_counter() + SPINS
    while (now := of_others()) - before > 1e-4 and perf_counter() < end:
        before = now
        sleep(TICK)


def _length(engine: Engine) -> int:
    """Calls in a burst."""
    engine.call()
    typical = min(_burst(engine, 1)[0] for _ in range(3))
    return int(np.clip(BURST_SECONDS / typical, 1, MOST_CALLS))


def _goes_on(clean: int, tried: int, elapsed: float, seconds: float, rounds: int | None) -> bool:
    """Whether to do another round, by rounds that were not disturbed, rounds in all, and seconds so far."""
    if rounds:
        return clean < rounds and tried < PATIENCE * max(rounds, MIN_ROUNDS)
    if tried < MIN_ROUNDS or elapsed < seconds:
        return True
    return clean < MIN_ROUNDS and elapsed < PATIENCE * seconds


def _burst(engine: Engine, calls: int) -> np.ndarray:
    call, clock = engine.call, perf_counter
    call()
    marks = [clock()]
    for _ in range(calls):
        call()
        marks.append(clock())
    return np.diff(marks)
