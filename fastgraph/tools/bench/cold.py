"""Cold start: whole processes, from their start to the first result, engines in turns.

Files lie in the system's cache, as one start that does not count has read them. fastgraph starts with a cache of its
own that is full, and some times with an empty one, when it compiles kernels, plans and packs; and from a saved program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ... import __version__, disturbance
from ...errors import FastgraphError, InputError
from ...loading import load
from ...saved.source import saved_in
from .. import start as script
from ..engines import Feeds, peer, running
from .figures import latency, median_interval
from .rounds import allowed_cpus, pinned, repeated

ROUNDS = 11
EMPTY_ROUNDS = 3
"""Starts with an empty cache: they take seconds, and agree within some percent."""
PARTS = ("python", "numpy", "import", "load", "first")
"""The phases of a start: the interpreter, importing NumPy and the engine, loading, the first inference."""


class Way(NamedTuple):
    """An engine, the file that it loads, and fastgraph's cache (None: a new one each time)."""

    name: str
    engine: str
    path: str
    cache: Path | None


class Start(NamedTuple):
    """A process: seconds of the PARTS; the peak of its memory in MB, and of that the MB beyond a process with NumPy
    (None: not known); its usage of the CPU; and the modules that it had imported in the end.
    """

    parts: tuple[float, ...]
    peak: float | None
    added: float | None
    usage: disturbance.Usage
    modules: frozenset[str]

    @property
    def seconds(self) -> float:
        return sum(self.parts)


class Fed(NamedTuple):
    """Where arrays lie, what they are called, and how a network is loaded."""

    folder: Path
    names: tuple[str, ...]
    threads: int = 1
    isa: str | None = None
    function: str | None = None


@dataclass(frozen=True)
class Round:
    starts: tuple[Start, ...]

    @property
    def usage(self) -> tuple[disturbance.Usage, ...]:
        return tuple(each.usage for each in self.starts)


def cold_start(
    path: str, feeds: Feeds, against: Sequence[str], rounds: int | None = None, *, threads: int = 1,
    cpus: Sequence[int] = (), isa: str | None = None, function: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Measure starts of fastgraph and of `against`; the keys of `compare`, but those of the arena, and `cold`: True.

    Of an engine: figures of the milliseconds from the start of a process to the first result, in `medians_ms` each;
    medians of `python_ms`, `numpy_ms`, `import_ms`, `load_ms`, `first_ms`, and of `peak_mb` and `added_mb`, memory
    beyond that of Python with NumPy. fastgraph's rows are `fastgraph`, whose cache is full, `fastgraph, saved` and
    `fastgraph, empty cache`. `ratio` is the first one's time / a peer's.
    """
    with pinned(threads, cpus) as cpu, TemporaryDirectory() as name:
        fed = fed_in(Path(name), feeds)._replace(threads=threads, isa=isa, function=function)
        peers, missing = running(against, lambda engine: (engine, peer(engine, path, feeds, threads).version))
        version = {"fastgraph": __version__, **dict(peers)}
        ways = [Way("fastgraph", "fastgraph", path, Path(name, "cache")), *_saved(path, feeds, fed)]
        ways += [Way(engine, engine, path, None) for engine, _ in peers]
        kept, shares, report = measured(ways, fed, rounds or ROUNDS)
        columns = dict(zip(ways, zip(*(each.starts for each in kept), strict=True), strict=True))
        if not saved_in(path):
            empty = Way("fastgraph, empty cache", "fastgraph", path, None)
            columns[empty] = tuple(start(empty, fed) for _ in range(min(rounds or ROUNDS, EMPTY_ROUNDS)))
            shares.append(disturbance.shares([each.usage for each in columns[empty]]))
        allowed = allowed_cpus()
    own = columns[ways[0]]
    rows = [
        {"name": way.name, "version": version[way.engine]} | _row(starts) | share | _ratio(own, starts, way)
        for (way, starts), share in zip(columns.items(), shares, strict=True)
    ]
    return {
        "model": os.fspath(path), "isa": isa or "", "threads": threads, "cold": True,
        "inputs": {key: list(array.shape) for key, array in feeds.items()}, "cpu": cpu, "cpus": allowed,
        "rounds": len(kept), "disturbance": report, "engines": rows + missing,
    }  # fmt: skip


def fed_in(folder: Path, feeds: Mapping[str, np.ndarray]) -> Fed:
    """Arrays written into a folder."""
    for i, array in enumerate(feeds.values()):
        np.save(folder / f"{i}.npy", array)
    return Fed(folder, tuple(feeds))


def _saved(path: str, feeds: Feeds, fed: Fed) -> list[Way]:
    """A way by a saved program, where the file is none, and can be saved."""
    if saved_in(path):
        return []
    place = fed.folder / "saved.fgm"
    shapes = {name: array.shape for name, array in feeds.items()}
    try:
        load(path, threads=fed.threads, isa=fed.isa, function=fed.function, shapes=shapes).save(place)
    except FastgraphError:
        return []
    return [Way("fastgraph, saved", "fastgraph", str(place), fed.folder / "cache")]


def measured(ways: Sequence[Way], fed: Fed, rounds: int) -> tuple[list[Round], list[dict[str, float]], dict[str, Any]]:
    """Rounds in which each way starts once, after one that does not count, as `repeated` gives them."""
    for way in ways:
        start(way, fed)

    def one(turn: int) -> Round:
        order = [(k + turn) % len(ways) for k in range(len(ways))]
        found = {i: start(ways[i], fed) for i in order}
        return Round(tuple(found[i] for i in range(len(ways))))

    (kept, *_), shares, report = repeated(one, 0, rounds)
    return kept, shares, report


def start(way: Way, fed: Fed, package: Path | None = None) -> Start:
    """A process that loads and runs a network once, with the fastgraph that lies in `package` (default: this one).

    InputError, with what it said last, when it fails.
    """
    here = Path(script.__file__)
    root = package or here.parents[2]
    words = (way.engine, way.path, str(fed.folder), str(fed.threads), fed.isa or "-", fed.function or "-", *fed.names)
    command = [sys.executable, "-P", str(root / here.relative_to(here.parents[2])), *words]
    with _cache(way) as cache:
        stolen, begun = disturbance.now().stolen, perf_counter()
        done = subprocess.run(command, env=_environment(root, cache), capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise InputError(f"{way.name} did not start: {last}")
    found = json.loads(done.stdout.splitlines()[-1])
    moments = [begun, *found["moments"]]
    cpu, queued, forced, willing = found["usage"]
    after = disturbance.now()
    wall = moments[-1] - begun
    usage = disturbance.Usage(wall, cpu, queued, after.stolen - stolen, forced, willing, after.cpus)
    peak, bare = found["peak"], found["bare"]
    return Start(
        tuple(b - a for a, b in zip(moments, moments[1:], strict=False)),
        None if peak is None else peak / 1024,
        None if peak is None or bare is None else (peak - bare) / 1024,
        usage,
        frozenset(found["modules"]),
    )


@contextmanager
def _cache(way: Way) -> Iterator[Path]:
    if way.cache is not None:
        yield way.cache
    else:
        with TemporaryDirectory() as name:
            yield Path(name)


def _environment(root: Path, cache: Path) -> dict[str, str]:
    """As users have it: bytecode is kept, nothing is checked, nobody is called."""
    env = {key: text for key, text in os.environ.items() if key not in ("PYTHONDONTWRITEBYTECODE", "FASTGRAPH_CHECK")}
    paths = os.pathsep.join(filter(None, (str(root), env.get("PYTHONPATH"))))
    return env | {"FASTGRAPH_CACHE_DIR": str(cache), "PYTHONPATH": paths, "ORT_DISABLE_TELEMETRY": "1"}


def _row(starts: Sequence[Start]) -> dict[str, Any]:
    row = latency([np.array([each.seconds]) for each in starts])
    parts = np.median([each.parts for each in starts], axis=0)
    row |= {f"{name}_ms": float(1e3 * seconds) for name, seconds in zip(PARTS, parts, strict=True)}
    for key, values in (("peak_mb", [e.peak for e in starts]), ("added_mb", [e.added for e in starts])):
        known = [value for value in values if value is not None]
        row[key] = float(np.median(known)) if known else None
    return row


def _ratio(own: Sequence[Start], starts: Sequence[Start], way: Way) -> dict[str, Any]:
    if way.engine == "fastgraph":
        return {}
    ratios = [a.seconds / b.seconds for a, b in zip(own, starts, strict=True)]
    return {"ratio": float(np.median(ratios)), "ratio_interval": median_interval(ratios)}
