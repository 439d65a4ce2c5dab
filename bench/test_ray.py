"""Ray Data with one and two actors on this machine: rows a second, and the memory of the actors.

pytest bench/test_ray.py, with pip install 'fastgraph-runtime[bench,ray]'. Times are those between the first batch and
the last one, without the start of Ray and of the actors; CPU time tells what other programs took of them. PSS counts a
page that several processes share in parts: of two that map the same weights each has half.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, thread_time, time
from typing import Any

import numpy as np
import pytest
import zoo

import fastgraph as fg
from fastgraph.ray import Predictor

ROWS = 96
BATCH = 8
NETWORKS = ("mobilenet_v2", "resnet50")


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'fastgraph-runtime[ray]'")
    pytest.importorskip("ray.data")
    env = {"PYTHONPATH": str(Path(__file__).parents[1])}
    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": env})
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


def images() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, 3, 224, 224), np.float32)


def watched() -> type:
    """A Predictor whose rows say who made them, when, and in how much memory; local, so that Ray sends its code."""

    def memory() -> dict[str, float]:
        """MB of this process, and of the saved program that it maps."""
        found = dict.fromkeys(("Pss", "Rss", "Pss of .fgm", "Rss of .fgm"), 0.0)
        mapped = ""
        for words in map(str.split, open("/proc/self/smaps")):
            if not words[0].endswith(":"):
                mapped = words[-1]
            elif words[0][:-1] in found:
                for name in (words[0][:-1], f"{words[0][:-1]} of .fgm")[: 1 + mapped.endswith(".fgm")]:
                    found[name] += int(words[1]) / 1024
        return found

    class Watched(Predictor):
        def __call__(self, batch: Any) -> Any:
            began, used = time(), thread_time()
            found = super().__call__(batch)
            ended, used = time(), thread_time() - used
            rows, known = len(next(iter(found.values()))), memory()
            facts = {"pid": os.getpid(), "began": began, "ended": ended, "cpu": used / rows, **known}
            return found | {name: np.full(rows, fact) for name, fact in facts.items()}

    return Watched


@pytest.mark.parametrize("network", NETWORKS)
def test_alone(goal: Any, network: str) -> None:
    """The loop that an actor does, without Ray."""
    model, rows = fg.load(zoo.network(network), threads=1), images()
    model(rows[:1])
    begun, used = perf_counter(), thread_time()
    for i in range(ROWS):
        model(rows[i : i + 1])
    goal(f"{network}: without Ray", ROWS / (perf_counter() - begun), "rows/s")
    goal(f"{network}: without Ray, in CPU time", ROWS / (thread_time() - used), "rows/s")


@pytest.mark.parametrize("actors", [1, 2])
@pytest.mark.parametrize("network", NETWORKS)
def test_actors(ray: Any, goal: Any, network: str, actors: int) -> None:
    if actors > (os.cpu_count() or 1):
        pytest.skip(f"{actors} actors want as many CPUs")
    path, rows = zoo.network(network), images()
    ds = ray.data.from_numpy_refs([ray.put(part) for part in np.split(rows, 16)])
    how = {"fn_constructor_kwargs": {"path": path}, "batch_size": BATCH, "concurrency": actors, "num_cpus": 1}
    found = ds.map_batches(watched(), **how).take_all()
    model = fg.load(path, threads=1)
    (name,) = (spec.name for spec in model.outputs)
    made = np.stack([row[name] for row in found])
    for row in rows[::24]:
        assert (np.abs(model(row[None]) - made).max(axis=1) < 1e-4).any()
    assert len({row["pid"] for row in found}) == actors, "an actor had nothing to do"
    seconds = max(row["ended"] for row in found) - min(row["began"] for row in found)
    last = {row["pid"]: row for row in sorted(found, key=lambda row: row["ended"])}
    label = f"{network}: {actors} actor{'s' * (actors > 1)}"
    goal(label, ROWS / seconds, "rows/s")
    goal(f"{label}, in CPU time", actors * ROWS / sum(row["cpu"] for row in found), "rows/s")
    for what in ("Pss", "Rss", "Pss of .fgm", "Rss of .fgm"):
        goal(f"{label}, {what} of each", sum(row[what] for row in last.values()) / actors, "MB")
