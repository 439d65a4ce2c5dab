"""A call, or a .tflite network against LiteRT and OpenVINO, on one thread: what the tests of such share."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph import disturbance
from fastgraph.tools.bench import agrees, compare, measure, pinned
from fastgraph.tools.engines import Engine
from fastgraph.tools.feeds import random_feeds

PEERS = ("litert", "openvino")
SECONDS = 4.0


def left_alone(found: dict[str, Any]) -> None:
    """Skips the test when other programs disturbed too many of its rounds: a figure of theirs is worse than none."""
    if found["noisy"]:
        pytest.skip(f"not measurable here: {disturbance.text(found)}")


def typical(benchmark: Any, call: Callable[[], Any], seconds: float = 1.0) -> float:
    """Seconds of a call, the median of the rounds that were left alone, which the saved run holds too."""
    with pinned(1):
        found = measure([Engine("", "", call, list)], seconds)
        left_alone(found.disturbance)
        benchmark.pedantic(call, rounds=20, warmup_rounds=2)
    median = float(np.median(np.concatenate(found.times[0])))
    benchmark.extra_info.update(median=median, disturbance=found.disturbance)
    return median


def compared(benchmark: Any, model: Any, feeds: Any, found: dict[str, Any]) -> None:
    """Assert that results agree, skip when the comparison was disturbed, else put it into the saved run."""
    assert agrees(found), found["engines"]
    left_alone(found["disturbance"])
    with pinned(found["threads"]):
        benchmark.pedantic(model.run, (feeds,), rounds=20, warmup_rounds=2)
    keys = ("engines", "arena_bytes", "arena_bound", "rounds", "disturbance")
    benchmark.extra_info.update(median=found["engines"][0]["p50_ms"] / 1e3, **{key: found[key] for key in keys})


def race(benchmark: Any, goal: Any, label: str, path: str, most: float) -> float:
    """fastgraph's time over that of the quicker peer that runs the file, noted beside `most`. Results must agree."""
    model = fg.load(path, threads=1)
    feeds = random_feeds(model, {})
    found = compare(path, feeds, PEERS, seconds=SECONDS)
    compared(benchmark, model, feeds, found)
    return noted(goal, label, found, most)


def noted(goal: Any, label: str, found: dict[str, Any], most: float) -> float:
    """The ratio to the quicker peer of a comparison, noted with all medians and 99th percentiles. Skips when it was
    disturbed.
    """
    left_alone(found["disturbance"])
    rows = [row for row in found["engines"] if "unavailable" not in row]
    if len(rows) < 2:
        pytest.skip("; ".join(f"{row['name']}: {row['unavailable']}" for row in found["engines"][1:]))
    times = ", ".join(f"{row['name']} {row['p50_ms']:.4f} p99 {row['p99_ms']:.4f}" for row in rows[1:])
    worst = max(row["ratio"] for row in rows[1:])
    goal(f"{label}: {rows[0]['p50_ms']:.4f} ms p99 {rows[0]['p99_ms']:.4f} ({times})", worst, "x", most)
    return worst


def note_mean(goal: Any, label: str, ratios: list[float], count: int, most: float) -> None:
    """The geometric mean of `count` ratios beside `most`; skips when some are missing."""
    if len(ratios) < count:
        pytest.skip(f"{len(ratios)} of {count} networks were measured")
    goal(f"{label}: geometric mean of {count}", exp(sum(map(log, ratios)) / count), "x", most)
