"""`fastgraph bench --cold`: whole processes, and what they say of themselves."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fastgraph import disturbance
from fastgraph.cli import main
from fastgraph.demo import MODEL, held_out
from fastgraph.disturbance import Usage
from fastgraph.errors import InputError
from fastgraph.tools.bench.cold import Fed, Start, Way, cold_start, fed_in, measured, start

DIGITS = str(MODEL)
IMAGE = {"image": held_out()[0][0]}
QUIET = Usage(1.0, 1.0, 0.0, 0.0, 0, 0)


@pytest.fixture
def faked(monkeypatch: Any) -> list[tuple[str, bool]]:
    """Starts that are not made: each way's name, and whether its cache is new. A saved one takes half as long."""
    seen: list[tuple[str, bool]] = []

    def fake(way: Way, fed: Fed, package: Path | None = None) -> Start:
        seen.append((way.name, way.cache is None))
        load = 0.1 if way.name.endswith("saved") else 0.2
        return Start((0.01, 0.02, 0.03, load, 0.04), 40.0, 10.0, QUIET, frozenset())

    monkeypatch.setattr("fastgraph.tools.bench.cold.start", fake)
    monkeypatch.setattr(disturbance, "disturbed", lambda _: False)
    return seen


def test_ways_take_turns_after_a_start_that_does_not_count(faked: list[tuple[str, bool]]) -> None:
    ways = [Way(name, name, "", None) for name in "abc"]
    kept, shares, report = measured(ways, Fed(Path(), ()), 3)
    assert "".join(name for name, _ in faked) == "abc" + "abc" + "bca" + "cab"
    assert len(kept) == report["rounds"] == 3 and len(shares) == 3


def test_rows(faked: list[tuple[str, bool]], monkeypatch: Any) -> None:
    peer = SimpleNamespace(version="9")
    monkeypatch.setattr("fastgraph.tools.bench.cold.peer", lambda *_: peer)
    found = cold_start(DIGITS, IMAGE, ["litert"], 6)
    warm, saved, litert, empty = found["engines"]
    assert [row["name"] for row in found["engines"]] == [
        "fastgraph", "fastgraph, saved", "litert", "fastgraph, empty cache",
    ]  # fmt: skip
    assert warm["p50_ms"] == pytest.approx(300) and saved["p50_ms"] == pytest.approx(200) and empty["calls"] == 3
    assert (warm["python_ms"], warm["import_ms"], warm["load_ms"]) == pytest.approx((10, 30, 200))
    assert warm["peak_mb"] == 40.0 and warm["added_mb"] == 10.0 and len(warm["medians_ms"]) == 6
    assert litert["ratio"] == 1.0 and litert["version"] == "9" and "ratio" not in saved
    assert faked[-3:] == [("fastgraph, empty cache", True)] * 3 and ("fastgraph, saved", True) not in faked


def test_the_command(faked: list[tuple[str, bool]], capsys: Any) -> None:
    assert main(["bench", DIGITS, "--cold", "--runs", "2"]) == 0
    out = capsys.readouterr().out
    assert "processes up to their first result" in out and "fastgraph, saved" in out
    assert main(["bench", DIGITS, "--cold", "--profile"]) == 2 and "for latencies" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["fastgraph", "onnxruntime", "openvino"])
@pytest.mark.slow
def test_a_process_says_what_it_took(engine: str, tmp_path: Path) -> None:
    if engine != "fastgraph":
        pytest.importorskip(engine)
    fed = fed_in(tmp_path, IMAGE)
    found = start(Way(engine, engine, DIGITS, tmp_path / "cache"), fed)
    assert len(found.parts) == 5 and all(part > 0 for part in found.parts)
    assert found.usage.wall == pytest.approx(found.seconds) and engine in found.modules
    assert ("fastgraph.loading" in found.modules) == (engine == "fastgraph"), "a peer's process has nothing of ours"
    if found.peak is not None:
        assert found.peak > found.added > 0  # type: ignore[operator]


def test_a_process_that_fails_says_why(tmp_path: Path, monkeypatch: Any) -> None:
    done = subprocess.CompletedProcess([], 1, "", "Traceback\nOSError: no such file\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(InputError, match="litert did not start: OSError: no such file"):
        start(Way("litert", "litert", "x", tmp_path), Fed(tmp_path, ()))


def test_arrays_are_fed_by_their_names(tmp_path: Path) -> None:
    fed = fed_in(tmp_path, {"b=1": np.arange(3), "a": np.ones(2)})
    assert fed.names == ("b=1", "a") and np.load(tmp_path / "0.npy").tolist() == [0, 1, 2]
