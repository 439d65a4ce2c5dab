"""`fastgraph bench --streams`: all streams of an engine at once, engines in turns."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgraph import disturbance
from fastgraph.cli import main
from fastgraph.demo import MODEL, held_out
from fastgraph.tools import engines
from fastgraph.tools.bench import streams
from fastgraph.tools.engines import Engine

DIGITS = str(MODEL)
IMAGE = {"image": held_out()[0][0]}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: Any) -> None:
    monkeypatch.setattr(disturbance, "disturbed", lambda _: False)
    monkeypatch.setattr(streams, "WINDOW", 0.0)


def test_one_stream_beside_the_peers(monkeypatch: Any) -> None:
    pytest.importorskip("onnxruntime")
    found = streams.throughput(DIGITS, IMAGE, ["onnxruntime", "litert"], 1, rounds=2)
    own, ort, away = found["engines"]
    assert found["streams"] == 1 and len(found["cpus"]) <= 1 and found["rounds"] == 2
    assert own["calls"] == 2 * streams.LEAST_CALLS and ort["agrees"] and "unavailable" in away
    for row in (own, ort):
        assert len(row["medians_ms"]) == 2 and row["per_second"] > 0
    assert ort["ratio"] == pytest.approx(np.median(np.array(own["medians_ms"]) / np.array(ort["medians_ms"])), rel=1e-9)


@pytest.mark.skipif(len(getattr(os, "sched_getaffinity", lambda _: [])(0)) < 2, reason="this process has one CPU")
def test_streams_run_at_the_same_time_each_on_its_cpu() -> None:
    """Each call waits for the other stream's: alone, none would end."""
    meet = threading.Barrier(2, timeout=20)
    seen: set[tuple[str, frozenset[int]]] = set()

    def call() -> None:
        meet.wait()
        seen.add((threading.current_thread().name, frozenset(os.sched_getaffinity(0))))

    cpus = sorted(os.sched_getaffinity(0))[:2]
    with streams._crew(cpus, 2) as crew:
        done = streams._round([[Engine("a", "", call, list)] * 2], crew, 0)
    assert {cpu for _, each in seen for cpu in each} == set(cpus) and len(seen) == 2
    assert len(done.calls[0]) == 2 * streams.LEAST_CALLS


def test_rates_add_up(monkeypatch: Any) -> None:
    monkeypatch.setattr(streams, "_stream", lambda call, _: np.array([call()] * 4))
    with streams._crew((), 2) as crew:
        pair = [Engine("a", "", lambda: 0.5, list), Engine("a", "", lambda: 0.25, list)]
        done = streams._round([pair, pair[::-1]], crew, 1)
    assert done.rates == (6.0, 6.0)
    row = streams._row([done, streams.Round(done.calls, (3.0, 6.0), done.usage)], 1)
    assert row["per_second"] == 6.0 and row["ratio"] == 1.5 and row["medians_ms"] == pytest.approx([1e3 / 6] * 2)


@pytest.mark.parametrize("name", ["fastgraph", "onnxruntime", "openvino"])
def test_streams_have_memory_of_their_own(name: str) -> None:
    """Each gives its own results, of other inputs than those that the last one ran on."""
    make = engines.fastgraph_streams if name == "fastgraph" else engines.STREAMS[name]
    if name != "fastgraph":
        pytest.importorskip(name)
    one, two = make(DIGITS, IMAGE, 2)
    expected = one.results()
    two.call()
    one.call()
    for each in (one, two):
        np.testing.assert_array_equal(each.results()[0], expected[0])


def test_the_command(capsys: Any, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    assert (
        main(["bench", DIGITS, "--streams", "1", "--runs", "2", "--json", str(file), "--csv", str(tmp_path / "x")]) == 0
    )
    out = capsys.readouterr().out
    assert "1 stream," in out and "a second" in out
    assert json.loads(file.read_text())["models"][0]["streams"] == 1
    for argv, said in ((["--threads", "2"], "one thread each"), (["--cpu", "0"], "2 streams need as many CPUs")):
        assert main(["bench", DIGITS, "--streams", "2", *argv]) == 2
        assert said in capsys.readouterr().err
    if hasattr(os, "sched_getaffinity"):
        assert main(["bench", DIGITS, "--streams", "9999"]) == 2
        assert "take fewer" in capsys.readouterr().err
