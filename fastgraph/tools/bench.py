"""Compares engines: interleaved on one core, with the same inputs, checking that results agree.

In each round every engine has a burst: one call that is not timed, then calls that are. In a burst the caches hold one
engine's data, as in a program that runs it alone; the order rotates from round to round. Drift of the machine affects
all engines, so the ratio of two is the median of the rounds' ratios. Disturbed rounds are dropped: see `disturbance`.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .. import disturbance
from ..cpus import default_threads
from ..errors import FastgraphError, InputError
from ..ir import Graph
from ..kernels.isa.tiers import usable
from ..runtime.model import Model, TensorSpec
from ..text import table
from .engines import Engine, Feeds, Unavailable, fastgraph, peer

BURST_SECONDS = 0.02
"""Seconds of a burst, for calls of any length, so that engines are disturbed alike."""
MOST_CALLS = 10_000
MIN_ROUNDS = 5
"""Undisturbed rounds that a ratio needs."""
PATIENCE = 2
"""Multiple of the requested time or rounds after which to stop waiting for undisturbed rounds."""
TOLERANCE = 1e-3
"""Largest accepted |difference| of outputs, over the largest |output|: float32 sums in other orders, and no more."""
HYBRID_TOLERANCE = 0.05
"""The same for floats that come from 8-bit numbers: engines round differently, and fuse some roundings away."""
QUANTIZED_TOLERANCE = 0.05
"""Largest accepted difference of quantized outputs over the range of their type: roundings of many layers."""
ROUNDS = frozenset({"quantize_linear", "dynamic_quantize_linear"})
"""ONNX's operators that round; in other formats types have a quantization."""


class NotMeasurable(FastgraphError):
    """Other programs used the CPU for too much of the time."""

    exit_code = 3


@dataclass(frozen=True)
class Round:
    """By engine: seconds of each timed call, and the usage of the burst."""

    bursts: tuple[np.ndarray, ...]
    usage: tuple[disturbance.Usage, ...]


@dataclass(frozen=True)
class Measured:
    """`times`, seconds of each timed call: by engine a list of bursts, one for each round that counts. Of all rounds,
    `shares` by engine and the report of `disturbance`.
    """

    times: list[list[np.ndarray]]
    shares: list[dict[str, float]]
    disturbance: dict[str, Any]


@contextmanager
def pinned(threads: int) -> Iterator[int | None]:
    """Keep this thread, and those made inside, on one CPU when `threads` is 1; the CPU, or None."""
    before: set[int] = set()
    try:
        if threads == 1:
            before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {max(before)})
    except (AttributeError, OSError):
        before = set()
    try:
        yield max(before) if before else None
    finally:
        if before:
            os.sched_setaffinity(0, before)


def compare(
    path: str, feeds: Feeds, against: Sequence[str], seconds: float = 3.0, rounds: int | None = None, **options: Any
) -> dict[str, Any]:
    """Measure fastgraph and `against` on a file, for `text` and JSON. options: threads, isa, function, as of `load`.

    Keys: model, threads, cpu (None: not pinned), rounds (those that count), arena_bytes, arena_bound (None: not known),
    disturbance (a `disturbance.report`), and engines, each with name and either `unavailable` (why) or version, calls,
    p50_ms, p99_ms, cpu_share, lost_share, and for peers ratio (fastgraph / peer) and what `compared` gives.
    """
    threads = options.pop("threads", 1)
    with pinned(threads) as cpu:
        own = fastgraph(path, feeds, threads, **options)
        engines, missing = [own], []
        for name in against:
            try:
                engines.append(peer(name, path, feeds, threads))
            except Unavailable as error:
                missing.append({"name": name, "unavailable": str(error)})
        most = HYBRID_TOLERANCE if engines[1:] and is_hybrid(own.model.graph) else TOLERANCE
        gaps = [compared(own.results(), engine.results(), own.model.outputs, most) for engine in engines[1:]]
        measured = measure(engines, seconds, rounds)
    medians = [np.array([np.median(burst) for burst in bursts]) for bursts in measured.times]
    found = []
    for i, (engine, bursts) in enumerate(zip(engines, measured.times, strict=True)):
        p50, p99 = np.percentile(np.concatenate(bursts), [50, 99]) * 1e3
        row: dict[str, Any] = {"name": engine.name, "version": engine.version}
        row |= {"calls": sum(map(len, bursts)), "p50_ms": float(p50), "p99_ms": float(p99)}
        row |= measured.shares[i]
        if i:
            row |= {"ratio": float(np.median(medians[0] / medians[i])), **gaps[i - 1]}
        found.append(row)
    return {
        "model": os.fspath(path), "isa": own.model.tier.name, "threads": threads, "cpu": cpu,
        "rounds": len(measured.times[0]), "arena_bytes": own.model.arena_bytes,
        "arena_bound": _bound(own.model), "disturbance": measured.disturbance, "engines": found + missing,
    }  # fmt: skip


def _bound(model: Model) -> int | None:
    """The bound of the arena in use; None where a saved program has another plan than one made here, or no graph."""
    try:
        arena = model.plan.program.arena
    except InputError:
        return None
    return arena.bound if arena is not None and arena.size == model.arena_bytes else None


def measure(engines: Sequence[Engine], seconds: float, rounds: int | None = None) -> Measured:
    """Rounds of bursts for so many seconds, or so many that are not disturbed. With too few of those all count, and the
    report says so.
    """
    lengths = [_length(engine) for engine in engines]
    done: list[Round] = []
    begun, clean = perf_counter(), 0
    while _goes_on(clean, len(done), perf_counter() - begun, seconds, rounds):
        done.append(_round(engines, lengths, len(done)))
        clean += not disturbance.disturbed(done[-1].usage)
    usage, needed = [each.usage for each in done], min(rounds or MIN_ROUNDS, MIN_ROUNDS)
    kept = [done[i].bursts for i in disturbance.kept(usage, needed)]
    return Measured(
        [list(bursts) for bursts in zip(*kept, strict=True)],
        [disturbance.shares(used) for used in zip(*usage, strict=True)],
        disturbance.report(usage, needed),
    )


def _round(engines: Sequence[Engine], lengths: Sequence[int], turn: int) -> Round:
    found = {}
    for k in range(len(engines)):
        i = (k + turn) % len(engines)
        before = disturbance.now()
        burst = _burst(engines[i], lengths[i])
        found[i] = burst, disturbance.now() - before
    return Round(*zip(*(found[i] for i in range(len(engines))), strict=True))


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


def compared(
    found: Sequence[np.ndarray], expected: Sequence[np.ndarray], specs: Sequence[TensorSpec], most: float = TOLERANCE
) -> dict[str, Any]:
    """`difference` of the plain outputs; of quantized ones, if there are any, `unequal`, the share of the stored
    numbers that differ, and `steps`, the largest gap between two. `agrees`: whether it is what rounding explains, with
    `most` as the largest difference.
    """
    pairs = list(zip(found, expected, specs, strict=True))
    plain = [(a, b) for a, b, spec in pairs if spec.quantization is None]
    gap = difference([a for a, _ in plain], [b for _, b in plain])
    row: dict[str, Any] = {"difference": gap, "agrees": gap <= most}
    stored = [(a, b) for a, b, spec in pairs if spec.quantization is not None]
    if any(a.shape != b.shape or a.dtype != b.dtype for a, b in stored):
        return row | {"unequal": 1.0, "steps": float("inf"), "agrees": False}
    if stored:
        gaps = [np.abs(a.astype(np.int64) - b).ravel() for a, b in stored]
        steps = [int(each.max(initial=0)) for each in gaps]
        ranges = [256**a.dtype.itemsize - 1 for a, _ in stored]
        row |= {"unequal": float((np.concatenate(gaps) != 0).mean()), "steps": max(steps)}
        row["agrees"] &= all(step <= QUANTIZED_TOLERANCE * limit for step, limit in zip(steps, ranges, strict=True))
    return row


def difference(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Largest |found - expected| over the largest |expected|, of the worst output; inf where NaNs differ."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape:
            return float("inf")
        if a.dtype.kind not in "fiubc" or a.size == 0:
            continue
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        x, y = a.astype(wide), b.astype(wide)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        if same.all():
            continue
        with np.errstate(all="ignore"):
            gap, scale = np.abs(x - y)[~same].max(), np.abs(y[np.isfinite(y)]).max(initial=0)
        worst = max(worst, float(gap / scale) if np.isfinite(gap) and scale else float("inf"))
    return worst


def is_hybrid(graph: Graph) -> bool:
    """Whether the graph computes floats from numbers that were rounded to, or are stored in, few bits."""
    if all(v.type.quant is not None for v in graph.outputs):
        return False
    return any(
        node.op in ROUNDS
        or node.op == "block_dense"
        or any(v.type.quant for v in node.outputs)
        or any(v is not None and v.data is not None and v.type.quant for v in node.inputs)
        for node in graph.nodes
    )


def agrees(result: dict[str, Any]) -> bool:
    """Whether the results of every engine that ran agree with fastgraph's."""
    return all(row.get("agrees", True) for row in result["engines"])


def refuse(result: dict[str, Any]) -> None:
    """NotMeasurable when too few rounds of a comparison were undisturbed."""
    if result["disturbance"]["noisy"]:
        why = disturbance.text(result["disturbance"])
        cpus, threads = default_threads(), result["threads"]
        close = f"{threads} threads share {cpus} CPUs: take fewer" if threads > cpus else "Close other programs"
        raise NotMeasurable(f"{result['model']}: not measurable here: {why}. {close}, or add --allow-noise")


def text(result: dict[str, Any]) -> str:
    """A comparison as a table."""
    cpu = "" if result["cpu"] is None else f" pinned to CPU {result['cpu']}"
    threads = f"{result['threads']} thread" + ("s" if result["threads"] > 1 else "")
    lines = [f"{result['model']}: {result['isa']}, {threads}{cpu}, {result['rounds']} rounds"]
    rows = [("engine", "version", "calls", "p50 ms", "p99 ms", "ratio", "difference")]
    notes = []
    for row in result["engines"]:
        if "unavailable" in row:
            notes.append(f"{row['name']}: {row['unavailable']}")
            continue
        ratio = f"{row['ratio']:.3f}" if "ratio" in row else ""
        gap = f"{row['difference']:.1e}" if "difference" in row else ""
        if "steps" in row:
            gap = f"{row['unequal']:.2%}, {row['steps']}"
        if not row.get("agrees", True):
            gap += " DISAGREES"
        calls = str(row["calls"])
        rows.append((row["name"], row["version"], calls, f"{row['p50_ms']:.4f}", f"{row['p99_ms']:.4f}", ratio, gap))
    if said := disturbance.text(result["disturbance"]):
        notes.append(f"NOISY, figures mean little: {said}" if result["disturbance"]["noisy"] else said)
    return "\n".join([*lines, *table(rows, right=(2, 3, 4, 5, 6)), *notes])


def machine() -> dict[str, Any]:
    """The CPU's name and its usable ISA tiers, the number of CPUs, the operating system, Python."""
    names = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor(),
        "tiers": [tier.name for tier in usable()],
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def geomean(results: Sequence[dict[str, Any]], name: str) -> float | None:
    """Geometric mean over the models of fastgraph's ratio to the engine `name`; None when it ran none."""
    ratios = [row["ratio"] for result in results for row in result["engines"] if row["name"] == name and "ratio" in row]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else None
