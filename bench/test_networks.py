"""Whole networks against onnxruntime and OpenVINO, on one thread and on two, and the arena against its bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rivals
import zoo

import fastgraph as fg
from fastgraph.demo import MODEL
from fastgraph.tools.bench import compare
from fastgraph.tools.feeds import random_feeds

PEERS = ("onnxruntime", "openvino")
SECONDS = 4.0
worst_ratios: dict[int, list[float]] = {1: [], 2: []}
"""For each number of threads, fastgraph's time over the quicker peer's, per network of the zoo."""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", [*zoo.NAMES, "digits"])
def test_network(benchmark: Any, goal: Any, name: str, threads: int) -> None:
    path = str(MODEL) if name == "digits" else zoo.network(name)
    model = fg.load(path, threads=threads)
    feeds = random_feeds(model, {})
    found = compare(path, feeds, PEERS, threads=threads, seconds=SECONDS)
    rivals.compared(benchmark, model, feeds, found)
    ratios = [row["ratio"] for row in found["engines"] if "ratio" in row]
    if not ratios:
        pytest.skip("no peer is installed: pip install 'fastgraph-runtime[bench]'")
    if name != "digits":
        worst_ratios[threads].append(max(ratios))
    p50 = found["engines"][0]["p50_ms"]
    label = f"{name}, {threads} thread{'s' if threads > 1 else ''}"
    goal(f"{label}: {p50:.3f} ms, of the quicker peer's", max(ratios), "x", 1.1 if threads == 1 else None)
    if threads == 1:
        goal(f"{label}: arena, of its bound", found["arena_bytes"] / found["arena_bound"], "x", 1.02)


@pytest.mark.parametrize("threads", [1, 2])
def test_geometric_mean(goal: Any, threads: int) -> None:
    """Of the networks measured above."""
    ratios = worst_ratios[threads]
    if len(ratios) < len(zoo.NAMES):
        pytest.skip(f"{len(ratios)} of {len(zoo.NAMES)} networks were measured")
    mean = float(np.exp(np.mean(np.log(ratios))))
    goal(f"geometric mean of {len(ratios)} networks, threads: {threads}", mean, "x", 0.95 if threads == 1 else None)
