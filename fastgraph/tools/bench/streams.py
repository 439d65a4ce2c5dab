"""Throughput: many inferences at the same time, a stream for each CPU.

In a round each engine has all streams for a while, in an order that rotates. Each stream is a thread of Python that
stays on its CPU and calls its own clone, binding, request or interpreter. What an engine does in a second is the sum
over its streams of calls by their time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import Barrier
from time import perf_counter
from typing import Any

import numpy as np

from ... import disturbance
from ...errors import InputError
from ..agreement import compared, tolerance
from ..engines import STREAMS, Engine, Feeds, fastgraph_streams, of_precision, running, tried
from .figures import latency, median_interval
from .rounds import allowed_cpus, of_others, pinned, repeated, rest

WINDOW = 0.25
"""Seconds that an engine's streams run in a round."""
LEAST_CALLS = 3
Crew = list[ThreadPoolExecutor]


@dataclass(frozen=True)
class Round:
    """By engine: seconds of each call of each stream, inferences a second, and the usage."""

    calls: tuple[np.ndarray, ...]
    rates: tuple[float, ...]
    usage: tuple[disturbance.Usage, ...]


def throughput(
    path: str, feeds: Feeds, against: Sequence[str], count: int, seconds: float = 3.0, rounds: int | None = None, *,
    cpus: Sequence[int] = (), **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """Measure `count` streams of fastgraph and of `against` on a file. options: isa, precision,
    function, as of `load`.

    The keys of `compare`, without those of loads and energy, and `streams`. Of an engine `per_second`: inferences a
    second, the median over rounds, with `per_second_interval`; latencies under that load; `medians_ms`: of each round
    the milliseconds for an inference of all streams together, of which `ratio` is made.
    """
    with pinned(count, cpus or _last(count)), _crew(cpus or _last(count), count) as crew:
        own = fastgraph_streams(path, feeds, count, **options)
        makers = of_precision(STREAMS, options.get("precision"))
        peers, missing = running(against, lambda name: tried(path, partial(makers[name], path, feeds, count)))
        teams = [own, *peers]
        model = own[0].model
        most = tolerance(model.graph) if teams[1:] else 0.0
        gaps = [compared(own[0].results(), team[0].results(), model.outputs, most) for team in teams[1:]]
        (kept, *_), shares, report = repeated(lambda turn: _round(teams, crew, turn), seconds, rounds)
    rows: list[dict[str, Any]] = []
    for i, team in enumerate(teams):
        row = {"name": team[0].name, "version": team[0].version} | _row(kept, i) | shares[i]
        rows.append(row | (gaps[i - 1] if i else {}))
    return {
        "model": os.fspath(path), "isa": model.tier.name, "precision": model.precision, "threads": 1, "streams": count,
        "inputs": {name: list(array.shape) for name, array in feeds.items()}, "cpu": None,
        "cpus": list(cpus or _last(count)), "rounds": len(kept), "arena_bytes": model.arena_bytes,
        "disturbance": report, "engines": rows + missing,
    }  # fmt: skip


def _last(count: int) -> tuple[int, ...]:
    """The last `count` of the CPUs that this process may use; none where the system does not let it choose."""
    allowed = allowed_cpus()
    if allowed and len(allowed) < count:
        raise InputError(
            f"--streams {count}: this process may use {len(allowed)} CPUs, and a stream takes one: take fewer"
        )
    return tuple(allowed[-count:])


@contextmanager
def _crew(cpus: Sequence[int], count: int) -> Iterator[Crew]:
    """A thread for each stream, on its CPU."""
    with ExitStack() as stack:
        places = [{cpu} for cpu in cpus] or [set[int]()] * count
        yield [stack.enter_context(ThreadPoolExecutor(1, initializer=_stay, initargs=(place,))) for place in places]


def _stay(cpus: set[int]) -> None:
    with suppress(AttributeError, OSError):
        if cpus:
            os.sched_setaffinity(0, cpus)


def _round(teams: Sequence[Sequence[Engine]], crew: Crew, turn: int) -> Round:
    found = {}
    for k in range(len(teams)):
        i = (k + turn) % len(teams)
        barrier = Barrier(len(crew))
        others, before = of_others(), disturbance.now()
        runs = [pool.submit(_stream, each.call, barrier) for pool, each in zip(crew, teams[i], strict=True)]
        calls = [run.result() for run in runs]
        used = disturbance.now() - before
        rest(others)
        found[i] = np.concatenate(calls), sum(len(each) / each.sum() for each in calls), used
    return Round(*zip(*(found[i] for i in range(len(teams))), strict=True))


def _stream(call: Callable[[], Any], barrier: Barrier) -> np.ndarray:
    """Seconds of each call, after one that is not timed, of streams that begin together."""
    call()
    barrier.wait()
    clock = perf_counter
    marks = [clock()]
    while len(marks) <= LEAST_CALLS or marks[-1] - marks[0] < WINDOW:
        call()
        marks.append(clock())
    return np.diff(marks)


def _row(rounds: Sequence[Round], i: int) -> dict[str, Any]:
    rates = np.array([each.rates for each in rounds])
    row = latency([each.calls[i] for each in rounds]) | {"medians_ms": (1e3 / rates[:, i]).tolist()}
    row |= {"per_second": float(np.median(rates[:, i])), "per_second_interval": median_interval(rates[:, i])}
    if i:
        ratios = rates[:, i] / rates[:, 0]
        row |= {"ratio": float(np.median(ratios)), "ratio_interval": median_interval(ratios)}
    return row
