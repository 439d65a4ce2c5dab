"""`fastgraph.testing.benchmark_model` in pytest-benchmark: what it measures, notes and checks."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.demo import MODEL, held_out
from fastgraph.testing import benchmark_model
from fastgraph.tools import engines
from fastgraph.tools.engines import Engine
from tests.nets import by_onnxruntime

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")
FAST = pytest.mark.benchmark(max_time=0.01, min_rounds=3, calibration_precision=1)


class Fixture:
    """In place of pytest-benchmark's, which measures once a test: calls what it is given, or something else."""

    def __init__(self, call: Callable[[Callable[[], Any]], Any] = lambda function: function()) -> None:
        self.call, self.extra_info = call, {}

    def __call__(self, function: Callable[[], Any]) -> Any:
        return self.call(function)


@FAST
def test_in_the_fixture(benchmark: Any) -> None:
    image = held_out()[0][0]
    found = benchmark_model(benchmark, MODEL, {"image": image})
    expected = by_onnxruntime(MODEL.read_bytes(), {"image": image})[0]
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
    known = benchmark.extra_info
    assert known["threads"] == 1 and known["model"] == str(MODEL) and known["versions"]["fastgraph"] == fg.__version__
    model = fg.load(MODEL, threads=1)
    assert known["arena_bytes"] == model.arena_bytes and known["tier"] == model.tier.name
    assert sum(known["kernels"].values()) == len(model.plan.program.steps)
    assert benchmark.disabled or benchmark.stats.stats.min > 0


def test_on_one_cpu_and_back() -> None:
    before, during = os.sched_getaffinity(0), []
    fixture = Fixture(lambda _: during.append(os.sched_getaffinity(0)))
    benchmark_model(fixture, MODEL)
    assert during == [{fixture.extra_info["cpu"]}] and os.sched_getaffinity(0) == before


def test_a_model_with_two_threads_is_not_pinned() -> None:
    model = fg.load(MODEL, threads=2)
    fixture = Fixture()
    benchmark_model(fixture, model)
    assert fixture.extra_info["cpu"] is None and fixture.extra_info["threads"] == 2
    with pytest.raises(fg.InputError, match="loaded already"):
        benchmark_model(fixture, model, isa="generic")


def test_results_that_change_are_an_error() -> None:
    model = fg.load(MODEL, threads=1)
    run, calls = model.run, []

    def other(feeds: Any) -> dict[str, np.ndarray]:
        calls.append(feeds)
        return {name: array + len(calls) for name, array in run(feeds).items()}

    vars(model)["run"] = other
    with pytest.raises(AssertionError, match="not the same before and after: probabilities"):
        benchmark_model(Fixture(), model)


def test_against_an_engine() -> None:
    pytest.importorskip("onnxruntime")
    fixture = Fixture()
    benchmark_model(fixture, MODEL, {"image": held_out()[0][0]}, against="onnxruntime", seconds=0.1)
    (row,) = fixture.extra_info["engines"]
    assert row["name"] == "onnxruntime" and row["agrees"] and row["ratio"] > 0
    with pytest.raises(fg.InputError, match="give its path"):
        benchmark_model(fixture, MODEL.read_bytes(), against="onnxruntime")
    with pytest.raises(fg.InputError, match="against 'ort': the engines are .* did you mean onnxruntime?"):
        benchmark_model(fixture, MODEL, against="ort")


def test_an_engine_that_disagrees(monkeypatch: Any) -> None:
    wrong = Engine("wrong", "1", lambda: None, lambda: [np.zeros((1, 10), np.float32)])
    monkeypatch.setitem(engines.PEERS, "wrong", lambda *_: wrong)
    with pytest.raises(AssertionError, match="results disagree"):
        benchmark_model(Fixture(), MODEL, against=["wrong"], seconds=0.1)
