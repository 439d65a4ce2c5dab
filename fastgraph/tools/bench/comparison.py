"""A file measured in several engines."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ... import disturbance
from ...cpus import default_threads
from ...errors import FastgraphError, InputError
from ...runtime.model import Model
from ..agreement import compared, tolerance
from ..engines import PEERS, Engine, Feeds, fastgraph, of_precision, running, tried
from .figures import latency
from .rounds import Measured, allowed_cpus, measure, pinned

LOADS = 3
"""Timed loads of each engine, in turns."""
LOAD_SECONDS = 5.0
"""Seconds after which there are no more of them."""
Maker = Callable[[], Engine]


class NotMeasurable(FastgraphError):
    """Other programs used the CPU for too much of the time."""

    exit_code = 3


def compare(
    path: str, feeds: Feeds, against: Sequence[str], seconds: float = 3.0, rounds: int | None = None, *,
    threads: int = 1, warmup: float = 0.0, cpus: Sequence[int] = (), samples: bool = False, **options: Any,
) -> dict[str, Any]:  # fmt: skip
    """Measure fastgraph and `against` on a file, for `text`, `sheet` and JSON. options: isa, precision,
    function, as of `load`.

    `model`, `isa`, `precision`, `threads`, `inputs` (shapes by name), `cpu` (None: not one alone), `cpus` (those
    allowed), `rounds` (those that count for fastgraph), `arena_bytes`, `arena_bound` (None: not known), `disturbance`
    (a `disturbance.report`), and `engines`, fastgraph first. Each of them has `name` and `unavailable` (why), or

    * `version`, `rounds` that count for it, and what `figures.latency` gives of them: `calls`, `min_ms`, `mean_ms`,
      `p50_ms` ..., `quantiles_ms`, `medians_ms`;
    * `load_ms`, from a file that was read before to a model that is ready, and `first_ms`, its first inference: medians
      of LOADS, in turns, with modules imported and fastgraph's cache filled (`cold` measures processes);
    * `joules` of an inference, by all that the processor did (None: not known), `cpu_share`, `lost_share`;
    * of peers `ratio`, fastgraph's time / its own, and `ratio_interval` of 95 % (None: too few rounds), by
      `figures.ratio`; and what `compared` gives;
    * with `samples`, `samples_ns`, each call of each round that counts.
    """
    with pinned(threads, cpus) as cpu:
        makers, missing = _makers(path, feeds, against, threads, options)
        engines, loads = _loaded(makers)
        own = engines[0].model
        most = tolerance(own.graph) if engines[1:] else 0.0
        gaps = [compared(engines[0].results(), engine.results(), own.outputs, most) for engine in engines[1:]]
        measured = measure(engines, seconds, rounds, warmup)
        allowed = allowed_cpus()
    rows = [{"name": each.name, "version": each.version} | load for each, load in zip(engines, loads, strict=True)]
    for i, row in enumerate(rows):
        row |= _row(measured, i, samples) | (gaps[i - 1] if i else {})
    return {
        "model": os.fspath(path), "isa": own.tier.name, "precision": own.precision, "threads": threads,
        "inputs": {name: list(array.shape) for name, array in feeds.items()}, "cpu": cpu, "cpus": allowed,
        "rounds": len(measured.times[0]), "arena_bytes": own.arena_bytes, "arena_bound": _bound(own),
        "disturbance": measured.disturbance, "engines": rows + missing,
    }  # fmt: skip


def _row(measured: Measured, i: int, samples: bool) -> dict[str, Any]:
    """The figures of an engine, by its place; fastgraph's is 0."""
    row = latency(measured.times[i]) | {"rounds": len(measured.times[i]), "joules": measured.joules[i]}
    row |= measured.shares[i]
    if i:
        row["ratio"], row["ratio_interval"] = measured.ratio(0, i)
    if samples:
        row["samples_ns"] = [np.rint(1e9 * burst).astype(int).tolist() for burst in measured.times[i]]
    return row


def _makers(
    path: str, feeds: Feeds, against: Sequence[str], threads: int, options: dict[str, Any]
) -> tuple[list[Maker], list[dict[str, Any]]]:
    """What loads fastgraph and each peer that can run the file, once each was loaded; rows of those that can't."""
    own: Maker = partial(fastgraph, path, feeds, threads, **options)
    own()

    def maker(name: str) -> Maker:
        make = partial(of_precision(PEERS, options.get("precision"))[name], path, feeds, threads)
        tried(path, lambda: [make()])
        return make

    peers, missing = running(against, maker)
    return [own, *peers], missing


def _loaded(makers: Sequence[Maker]) -> tuple[list[Engine], list[dict[str, float]]]:
    """The engines, and medians of their `load_ms` and `first_ms`: each turn loads them all, in another order."""
    engines: dict[int, Engine] = {}
    times: list[list[tuple[float, float]]] = [[] for _ in makers]
    begun = perf_counter()
    for turn in range(LOADS):
        for k in range(len(makers)):
            i = (k + turn) % len(makers)
            engines.pop(i, None)
            gc.collect()
            marks = [perf_counter()]
            engines[i] = makers[i]()
            marks.append(perf_counter())
            engines[i].call()
            marks.append(perf_counter())
            times[i].append((marks[1] - marks[0], marks[2] - marks[1]))
        if perf_counter() - begun > LOAD_SECONDS:
            break
    typical = [1e3 * np.median(each, axis=0) for each in times]
    found = [{"load_ms": float(load), "first_ms": float(first)} for load, first in typical]
    return [engines[i] for i in range(len(makers))], found


def _bound(model: Model) -> int | None:
    """The bound of the arena in use; None where a saved program has another plan than one made here, or no graph."""
    try:
        arena = model.plan.program.arena
    except InputError:
        return None
    return arena.bound if arena.size == model.arena_bytes else None


def agrees(result: dict[str, Any]) -> bool:
    """Whether the results of every engine that ran agree with fastgraph's."""
    return all(row.get("agrees", True) for row in result["engines"])


def refuse(result: dict[str, Any]) -> None:
    """NotMeasurable when too few rounds of a comparison were undisturbed; engines that did not run are named first."""
    if result["disturbance"]["noisy"]:
        why = disturbance.text(result["disturbance"])
        cpus, threads = default_threads(), result["threads"]
        close = f"{threads} threads share {cpus} CPUs: take fewer" if threads > cpus else "Close other programs"
        rows = [row for row in result.get("engines", ()) if "unavailable" in row]
        missing = "".join(f"{row['name']}: {row['unavailable']}. " for row in rows)
        raise NotMeasurable(f"{result['model']}: {missing}not measurable here: {why}. {close}, or add --allow-noise")


def geomean(results: Sequence[dict[str, Any]], name: str) -> float | None:
    """Geometric mean over the models of fastgraph's ratio to the engine `name`; None when it ran none."""
    ratios = [row["ratio"] for result in results for row in result["engines"] if row["name"] == name and "ratio" in row]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else None
