"""What a call costs before any work is done."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.runtime.model import Model
from fastgraph.tools.bench import pinned

FLOATS = TensorType(np.dtype(np.float32), (1, 8))


def test_execute_of_an_empty_graph(benchmark: Any, goal: Any) -> None:
    """The graph gives its input as its output."""
    x = Value("x", FLOATS)
    model = Model(Graph("empty", [x], [x]), choose(), 1)
    model.input("x")[...] = 3
    execute = model.execute
    with pinned(1):
        benchmark(execute)
    assert (model.output("x") == 3).all()
    note(benchmark, goal, "execute, empty graph", 2.0)


def test_run_on_one_small_input(benchmark: Any, goal: Any) -> None:
    """One relu over eight numbers: a copy in, a native call, a copy out."""
    x, y = Value("x", FLOATS), Value("y")
    model = Model(Graph("small", [x], [y], [Node("relu", [x], [y])]), choose(), 1)
    feeds = {"x": np.linspace(-1, 1, 8, dtype=np.float32)[None]}
    with pinned(1):
        found = benchmark(model.run, feeds)
    np.testing.assert_array_equal(found["y"], np.maximum(feeds["x"], 0))
    note(benchmark, goal, "run, one small input", 8.0)


def note(benchmark: Any, goal: Any, what: str, most: float) -> None:
    if benchmark.stats:
        goal(what, benchmark.stats.stats.median * 1e6, "us", most)
