"""Ray Data with one and two actors on this machine: rows a second, and the memory of the actors.

pytest bench/test_ray.py, with pip install 'fastgraph-runtime[bench,ray]'. Times are those between the first batch and
the last one, without the start of Ray and of the actors; PSS counts shared pages in parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, time
from typing import Any

import numpy as np
import pytest
import zoo

import fastgraph as fg
from fastgraph.ray import Predictor

ROWS = 96
BATCH = 8
NETWORKS = ("mobilenet_v2", "resnet50")
single: dict[str, float] = {}


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

    class Watched(Predictor):
        def __call__(self, batch: Any) -> Any:
            began = time()
            found = super().__call__(batch)
            rows = len(next(iter(found.values())))
            known = dict(line.split(":", 1) for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
            pss, rss = (int(known[name].split()[0]) / 1024 for name in ("Pss", "Rss"))
            facts = {"pid": os.getpid(), "began": began, "ended": time(), "pss": pss, "rss": rss}
            return found | {name: np.full(rows, fact) for name, fact in facts.items()}

    return Watched


@pytest.mark.parametrize("network", NETWORKS)
def test_alone(goal: Any, network: str) -> None:
    """The loop that an actor does, without Ray."""
    model, rows = fg.load(zoo.network(network), threads=1), images()
    model(rows[:1])
    begun = perf_counter()
    for i in range(ROWS):
        model(rows[i : i + 1])
    single[network] = ROWS / (perf_counter() - begun)
    goal(f"{network}: without Ray", single[network], "rows/s")


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
    goal(f"{network}: {actors} actors", ROWS / seconds, "rows/s")
    goal(f"{network}: {actors} actors, PSS of each", sum(row["pss"] for row in last.values()) / actors, "MB")
    goal(f"{network}: {actors} actors, RSS of each", sum(row["rss"] for row in last.values()) / actors, "MB")
