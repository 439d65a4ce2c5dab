"""What a call costs before any work is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import rivals

from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.kernels.isa.tiers import choose
from fastgraph.runtime.model import Model

FLOATS = TensorType(np.dtype(np.float32), (1, 8))


def test_execute_of_an_empty_graph(benchmark: Any, goal: Any) -> None:
    """The graph gives its input as its output."""
    x = Value("x", FLOATS)
    model = Model(Graph("empty", [x], [x]), choose(), 1)
    model.input("x")[...] = 3
    seconds = rivals.typical(benchmark, model.execute)
    assert (model.output("x") == 3).all()
    goal("execute, empty graph", seconds * 1e6, "us", 2.0)


def test_run_on_one_small_input(benchmark: Any, goal: Any) -> None:
    """One relu over eight numbers: a copy in, a native call, a copy out."""
    x, y = Value("x", FLOATS), Value("y")
    model = Model(Graph("small", [x], [y], [Node("relu", [x], [y])]), choose(), 1)
    feeds = {"x": np.linspace(-1, 1, 8, dtype=np.float32)[None]}
    seconds = rivals.typical(benchmark, lambda: model.run(feeds))
    np.testing.assert_array_equal(model.run(feeds)["y"], np.maximum(feeds["x"], 0))
    goal("run, one small input", seconds * 1e6, "us", 8.0)
