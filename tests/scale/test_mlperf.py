"""MLPerf LoadGen: what engines are given, what a summary says, and a run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from bench.mlperf.__main__ import main
from bench.mlperf.run import SCENARIOS, summary
from bench.mlperf.system import issued, samples, stream
from fastgraph.demo import MODEL
from fastgraph.tools import engines
from tests.nets import by_onnxruntime

TINY = Path(__file__).resolve().parents[3] / "shared" / "models" / "mlperf_tiny"


@pytest.fixture
def tiny() -> str:
    """An autoencoder of MLPerf Tiny: its outputs depend on all of its inputs."""
    path = TINY / "ad01_int8.tflite"
    if not path.is_file():
        pytest.skip(f"needs {path}, which lies beside the checkout")
    return str(path)


@pytest.mark.parametrize("engine", ["fastgraph", "onnxruntime", "openvino"])
def test_samples_reach_the_engine(engine: str) -> None:
    if engine != "fastgraph":
        pytest.importorskip(engine)
    data = samples(str(MODEL), 3)
    one = stream(str(MODEL), engine, data[0], threads=1)
    for sample in (data[1], data[2], data[1]):
        one.run(sample)
        right = by_onnxruntime(MODEL.read_bytes(), sample)[0]
        found = one.engine.model.output("probabilities") if engine == "fastgraph" else one.engine.results()[0]
        np.testing.assert_allclose(found, right, atol=1e-5)
    assert not np.allclose(right, by_onnxruntime(MODEL.read_bytes(), data[2])[0], atol=1e-3)


def test_samples_reach_litert(tiny: str) -> None:
    pytest.importorskip("ai_edge_litert")
    data, model = samples(tiny, 2), fg.load(tiny, threads=1)
    one = stream(tiny, "litert", data[0], threads=1)
    for sample in reversed(data):
        one.run(sample)
        (found,), right = one.engine.results(), model(*sample.values())
        assert np.abs(found.astype(int) - right).max() <= 2
    assert np.abs(model(*data[0].values()).astype(int) - model(*data[1].values())).max() > 2


@pytest.mark.parametrize("waits", [False, True])
def test_every_query_is_completed(waits: bool) -> None:
    data = samples(str(MODEL), 2)
    streams = [stream(str(MODEL), "fastgraph", data[0], 1) for _ in range(2)]
    done: list[Any] = []
    queries = [type("Query", (), {"id": i, "index": i % 2}) for i in range(20)]
    with issued(streams, data, done.append, waits) as issue:
        issue(queries[:15])
        issue(queries[15:])
    assert sorted(query.id for query in done) == list(range(20))


def test_a_summary() -> None:
    text = """\
SUT name : PySUT
Scenario : SingleStream
90.0th percentile latency (ns) : 102400
Result is : INVALID
  Min duration satisfied : NO
Recommendations:
 * Increase expected QPS so the loadgen pre-generates a larger (coalesced) query.
"""
    found = summary("SingleStream", text)
    assert (found["valid"], found["result"]) == (False, 102400)
    assert found["reasons"] == ["Increase expected QPS so the loadgen pre-generates a larger (coalesced) query."]
    assert summary("Offline", "Samples per second: 12.5\nResult is : VALID\n")["result"] == 12.5


@pytest.mark.slow
def test_a_run(tiny: str, tmp_path: Path, capsys: Any) -> None:
    """Scenarios whose results are valid on a busy machine, too: Server's has a bound of time."""
    pytest.importorskip("mlperf_loadgen", reason="pip install 'fastgraph-runtime[mlperf]'")
    argv = [tiny, "--scenario", "SingleStream,Offline", "--seconds", "0.5", "--out", str(tmp_path), "--json"]
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    assert [each["scenario"] for each in found] == ["SingleStream", "Offline"]
    assert all(each["valid"] and each["result"] > 0 for each in found)
    assert (tmp_path / "Offline" / "fastgraph" / "mlperf_log_detail.txt").is_file()
    assert main([tiny, "--scenario", "Server", "--seconds", "0.5", "--qps", "500", "--latency", "1000", "--json"]) == 0
    (server,) = json.loads(capsys.readouterr().out)["results"]
    assert server["metric"] == SCENARIOS["Server"] and server["result"] > 0


def test_what_is_missing_is_said(capsys: Any, monkeypatch: Any) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("bench.mlperf.run.import_module", absent)
    assert main([str(MODEL)]) == 2
    assert "pip install 'fastgraph-runtime[mlperf]'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([str(MODEL), "--scenario", "Offlin"])
    assert "Offlin: the scenarios are SingleStream, Offline, Server" in capsys.readouterr().err
    with pytest.raises(engines.Unavailable):
        stream(str(MODEL), "litert", samples(str(MODEL), 1)[0], 1)
