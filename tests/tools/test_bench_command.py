"""`fastgraph bench`: figures, agreement, peers that are absent."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph import disturbance
from fastgraph.cli import main
from fastgraph.commands.common import addressed
from fastgraph.demo import MODEL, held_out
from fastgraph.ir import Quantization
from fastgraph.runtime.model import TensorSpec
from fastgraph.tools import agreement, bench, engines, profile
from fastgraph.tools.bench import comparison, rounds
from fastgraph.tools.engines import Engine

DIGITS = str(MODEL)


def test_against_onnxruntime(capsys: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    file = tmp_path / "bench.json"
    argv = ["--against", "onnxruntime", "--runs", "3", "--allow-noise", "--json", str(file)]
    code = main(["bench", DIGITS, DIGITS, *argv])
    out = capsys.readouterr().out
    assert code == 0 and "onnxruntime" in out and "geometric mean" in out and "DISAGREES" not in out
    found = json.loads(file.read_text())
    assert len(found["models"]) == 2 and found["machine"]["cpus"] == os.cpu_count()
    own, ort = found["models"][0]["engines"]
    assert own["name"] == "fastgraph" and ort["difference"] < 1e-5
    for row in (own, ort):
        assert row["calls"] >= 3 and 0 < row["p50_ms"] <= row["p99_ms"]
    assert ort["ratio"] == pytest.approx(own["p50_ms"] / ort["p50_ms"], rel=0.9)
    assert found["geomeans"]["onnxruntime"] > 0


def test_engines_that_cannot_run_are_named(capsys: Any, monkeypatch: Any) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(engines, "import_module", absent)
    assert main(["bench", DIGITS, "--against", "openvino,litert", "--runs", "2", "--allow-noise"]) == 0
    out = capsys.readouterr().out
    assert "openvino: not installed: pip install 'fastgraph-runtime[bench]'" in out
    assert "litert: reads .tflite files only" in out


def test_an_engine_that_breaks_is_reported(monkeypatch: Any) -> None:
    def broken(*_: Any) -> Engine:
        raise RuntimeError("no such operator\nat some line")

    monkeypatch.setitem(engines.PEERS, "onnxruntime", broken)
    feeds = {"image": held_out()[0][0]}
    found = bench.compare(DIGITS, feeds, ["onnxruntime"], rounds=1)
    assert found["engines"][1]["unavailable"] == "can't run this model: RuntimeError: no such operator"


def test_disagreement_is_said_and_fails(capsys: Any, monkeypatch: Any) -> None:
    wrong = Engine("onnxruntime", "0", lambda: None, lambda: [np.full((1, 10), 0.1, np.float32)])
    monkeypatch.setitem(engines.PEERS, "onnxruntime", lambda *_: wrong)
    assert main(["bench", DIGITS, "--against", "onnxruntime", "--runs", "1"]) == 1
    assert "DISAGREES" in capsys.readouterr().out


def test_unknown_engine(capsys: Any) -> None:
    assert main(["bench", DIGITS, "--against", "other"]) == 2
    assert "onnxruntime, openvino, litert" in capsys.readouterr().err


def test_json_on_stdout_is_only_json(capsys: Any) -> None:
    assert main(["bench", DIGITS, "--runs", "1", "--allow-noise", "--json", "-", "--profile"]) == 0
    model = json.loads(capsys.readouterr().out)["models"][0]
    assert model["arena_bytes"] == fg.load(DIGITS, threads=1).arena_bytes
    assert len(model["profile"]) == len(fg.load(DIGITS, threads=1).plan.program.steps)


def test_profile_has_a_time_for_each_step(capsys: Any) -> None:
    model = fg.load(DIGITS, threads=1)
    rows = profile.profile(model.plan, runs=5)
    assert len(rows) == len(model.plan.program.steps)
    assert all(row["us"] >= 0 for row in rows) and sum(row["us"] for row in rows) > 0
    assert all(row["gmacs"] > 0 for row in rows if row["op"] == "conv" and row["us"] > 0)
    text = profile.text(rows)
    assert len(text.splitlines()) == len(rows) + 3 and "us in all" in text and "limit" in text
    whole = sum(row["us"] for row in rows)
    assert "80% of the p50 above" in profile.text(rows, whole / 0.8)


@pytest.mark.parametrize(
    "found, expected, gap",
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.nan, 1.0], [2.0, 1.0], np.inf),
        ([np.inf, 1.0], [np.inf, 1.0], 0.0),
        ([0.5], [0.0], np.inf),
        ([1.0], [1.0, 1.0], np.inf),
        ([], [], 0.0),
    ],
)
def test_difference(found: list[float], expected: list[float], gap: float) -> None:
    assert agreement.difference([np.array(found)], [np.array(expected)]) == gap


def test_what_is_fed_and_what_is_written(tmp_path: Path, monkeypatch: Any) -> None:
    """Several files, each with its own array; every call of every round; a line for each engine."""
    fed: list[Any] = []
    monkeypatch.setattr("fastgraph.tools.bench.compare", lambda path, feeds, *_, **how: fed.append(feeds) or result)
    other = tmp_path / "other.onnx"
    other.write_bytes(MODEL.read_bytes())
    images = held_out()[0][:2]
    for i, image in enumerate(images):
        np.save(tmp_path / f"{i}.npy", image)
    result = comparison.compare(DIGITS, {"image": images[0]}, [], rounds=1, samples=True)
    sheet, file = tmp_path / "x.csv", tmp_path / "x.json"
    argv = ["--input", f"{other}:{tmp_path}/1.npy", "--input", f"digits.onnx:image={tmp_path}/0.npy", "--allow-noise"]
    assert main(["bench", DIGITS, str(other), *argv, "--csv", str(sheet), "--json", str(file)]) == 0
    for feeds, image in zip(fed, images, strict=True):
        np.testing.assert_array_equal(feeds["image"], image)
    assert len(sheet.read_text().splitlines()) == 3
    written = json.loads(file.read_text())
    own = written["models"][0]["engines"][0]
    assert [len(burst) for burst in own["samples_ns"]] == [own["calls"] // len(own["samples_ns"])] * len(
        own["samples_ns"]
    )
    assert len(own["medians_ms"]) == len(own["samples_ns"]) and own["load_ms"] > 0 and own["first_ms"] > 0
    assert written["command"].startswith("fastgraph") and written["machine"]["versions"]["numpy"] == np.__version__


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity on this platform")
def test_cpus_are_chosen_or_refused(capsys: Any, monkeypatch: Any) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    found = bench.compare(DIGITS, {"image": held_out()[0][0]}, [], rounds=1, cpus=allowed[:1])
    assert found["cpu"] == allowed[0] and found["cpus"] == allowed[:1]
    monkeypatch.setattr("fastgraph.loading.load", None)  # nothing is measured before that is said
    assert main(["bench", DIGITS, "--cpu", "100000"]) == 2
    assert "this process may use the CPUs" in capsys.readouterr().err
    assert main(["bench", DIGITS, "--cpu", "0", "--threads", "2"]) == 2
    assert "2 threads need as many CPUs" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["bench", DIGITS, "--cpu", "first"])


def test_engines_are_warmed_up(monkeypatch: Any) -> None:
    calls: list[float] = []
    now = [0.0]
    monkeypatch.setattr("fastgraph.tools.bench.rounds.perf_counter", lambda: now[0])

    def call() -> None:
        calls.append(now[0])
        now[0] += 0.25

    rounds._warm(Engine("a", "", call, list), 0.0)
    assert not calls
    rounds._warm(Engine("a", "", call, list), 2.0)
    assert len(calls) == 8


def test_each_engine_is_loaded_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "LOAD_SECONDS", float("inf"))
    order: list[str] = []

    def maker(name: str) -> Any:
        def make() -> Engine:
            order.append(name)
            return Engine(name, "", lambda: None, list)

        return make

    found, times = comparison._loaded([maker("a"), maker("b"), maker("c")])
    assert "".join(order) == "abcbcacab" and [each.name for each in found] == ["a", "b", "c"]
    assert all(each.keys() == {"load_ms", "first_ms"} for each in times)


def test_what_names_a_file_is_for_it_alone() -> None:
    shared, own = addressed(["x=1", "b.onnx:x=2", "a/b.onnx:y:0=3", "z:0=4"], ["a/b.onnx", "c.onnx"])
    assert shared == ["x=1", "z:0=4"] and own == {"a/b.onnx": ["x=2", "y:0=3"], "c.onnx": []}


BYTES = TensorSpec("y", (2, 4), np.dtype(np.int8), Quantization((0.1,), (0,)))


@pytest.mark.parametrize("steps, agree", [(0, True), (1, True), (-12, True), (13, False), (200, False)])
def test_quantized_outputs_are_compared_by_steps(steps: int, agree: bool) -> None:
    found = np.full((2, 4), -100, np.int8)
    expected = found.copy()
    expected[0, 1] = -100 + steps
    row = agreement.compared([found], [expected], [BYTES])
    assert row == {"difference": 0.0, "unequal": (steps != 0) / 8, "steps": abs(steps), "agrees": agree}


def test_quantized_outputs_of_other_types_disagree() -> None:
    found = np.zeros((2, 4), np.int8)
    for other in (found.astype(np.float32), found[:1]):
        assert not agreement.compared([found], [other], [BYTES])["agrees"]
    plain = TensorSpec("z", (1,), np.dtype(np.float32))
    mixed = agreement.compared([found, np.ones(1)], [found, np.full(1, 1.5)], [BYTES, plain])
    assert mixed["steps"] == 0 and mixed["difference"] == pytest.approx(1 / 3) and not mixed["agrees"]


def test_every_engine_has_its_turn_and_the_order_turns(monkeypatch: Any) -> None:
    monkeypatch.setattr(disturbance, "disturbed", lambda _: False)
    calls: list[str] = []
    both = [Engine(n, "", lambda n=n: calls.append(n), lambda: []) for n in "ab"]  # type: ignore[misc]
    times = bench.measure(both, seconds=0, rounds=2).times
    assert [len(bursts) for bursts in times] == [2, 2]
    turns = [n for i, n in enumerate(calls) if i == 0 or calls[i - 1] != n]
    assert "".join(turns) == "aba" + "ba"[1:] or "".join(turns).endswith("aba")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity on this platform")
def test_one_thread_is_pinned_and_let_go() -> None:
    before = os.sched_getaffinity(0)
    with bench.pinned(1) as cpu:
        assert os.sched_getaffinity(0) == {cpu}
    with bench.pinned(2) as none:
        assert none is None and os.sched_getaffinity(0) == before
    assert os.sched_getaffinity(0) == before
