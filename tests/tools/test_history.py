"""The course of figures over commits: what a line keeps, and where steps are."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.errors import FileError, InputError
from fastgraph.tools import history

MACHINE = {"cpu": "A CPU", "cpus": 2}


def result(p50: float = 1.0, noisy: bool = False, model: str = "net.onnx") -> dict[str, Any]:
    engines = [
        {"name": "fastgraph", "p50_ms": p50},
        {"name": "onnxruntime", "p50_ms": 2.0, "ratio": p50 / 2},
        {"name": "litert", "unavailable": "reads .tflite files only"},
    ]
    known = {"model": model, "isa": "avx2", "threads": 1, "arena_bytes": 64}
    return known | {"engines": engines, "disturbance": {"noisy": noisy}}


def levels(*parts: tuple[int, float], noise: float = 0.005) -> list[float]:
    """Times around these levels, so many of each."""
    rng = np.random.default_rng(0)
    return [level * float(np.exp(noise * rng.standard_normal())) for count, level in parts for _ in range(count)]


@pytest.mark.parametrize(
    "parts, expected",
    [
        ([(20, 1.0)], {}),
        ([(10, 1.0), (10, 1.2)], {10: 0.2}),
        ([(10, 1.0), (3, 1.2)], {10: 0.2}),
        ([(3, 1.0), (3, 0.5)], {3: -0.5}),
        ([(10, 1.0), (2, 1.2)], {}),  # not confirmed yet
        ([(10, 1.0), (1, 3.0), (10, 1.0)], {}),  # one slow run
        ([(8, 1.0), (4, 1.5), (8, 1.0)], {8: 0.5, 12: -1 / 3}),
        ([(8, 1.0), (8, 1.03)], {}),  # less than counts
        ([(6, 1.0), (6, 1.2), (6, 1.44)], {6: 0.2, 12: 0.2}),
        ([(5, 1.0)], {}),
    ],
)
def test_steps(parts: Any, expected: dict[int, float]) -> None:
    found = history.steps(levels(*parts))
    assert list(found) == list(expected)
    assert list(found.values()) == pytest.approx(list(expected.values()), abs=0.02)


def test_a_noisy_machine_has_no_steps_within_its_noise() -> None:
    assert history.steps(levels((10, 1.0), (10, 1.1), noise=0.1)) == {}


def test_noisy_runs_do_not_count() -> None:
    times = levels((6, 1.0), (6, 1.2))
    runs = [history.record(result(time), MACHINE) for time in times]
    shared = result(9.0) | {"disturbance": {"noisy": False, "shared": 9, "kept": "all"}}
    runs[3:3] = [history.record(each, MACHINE) for each in (result(9.0, noisy=True), shared)]
    assert list(history.marked(runs)) == [8]
    assert "slower: +20%" in history.text(runs) and "noisy" in history.text(runs)


def test_a_device_is_no_history() -> None:
    with pytest.raises(InputError, match="/dev/zero: expected a file"):
        history.read("/dev/zero")


def test_a_file_of_bytes_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"\x08\xc3\x28\xff")
    with pytest.raises(InputError, match="net.onnx:1: expected a line"):
        history.read(tmp_path / "net.onnx")


def test_a_file_is_added_to(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "speed.jsonl"
    for time in (1.0, 1.5):
        history.append(file, [history.record(result(time), MACHINE)])
    found = history.read(file)
    assert [each["p50_ms"] for each in found] == [1.0, 1.5]
    assert found[0]["ratios"] == {"onnxruntime": 0.5} and found[0]["commit"] is None
    (course,) = history.series(found).values()
    assert len(course) == 2


def test_commits_and_names_of_a_checkout(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "a.onnx").write_text("x")
    monkeypatch.chdir(tmp_path)
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *command], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    one = history.record(result(model="nets/a.onnx"), MACHINE)
    assert (one["commit"], one["model"]) == (head[:12], "nets/a.onnx")
    (tmp_path / "nets" / "a.onnx").write_text("y")
    monkeypatch.chdir(tmp_path / "nets")
    other = history.record(result(model="a.onnx"), MACHINE)
    assert (other["commit"], other["model"]) == (head[:12] + "+", "nets/a.onnx")


def test_what_is_no_record_is_named(tmp_path: Path) -> None:
    file = tmp_path / "speed.jsonl"
    file.write_text(json.dumps(history.record(result(), MACHINE)) + '\n{"model": "x"}\n')
    with pytest.raises(InputError, match=r"speed.jsonl:2: expected a line that fastgraph bench --history wrote"):
        history.read(file)


def test_commands(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "speed.jsonl"
    for _ in range(2):
        argv = ["bench", str(MODEL), "--runs", "2", "--allow-noise", "--history", str(file)]
        assert main(argv) == 0
    capsys.readouterr()
    assert main(["history", str(file)]) == 0
    out = capsys.readouterr().out
    assert "digits.onnx" in out and "2 runs" in out and "p50 ms" in out
    assert main(["history", str(file), "--json"]) == 0
    (course,) = json.loads(capsys.readouterr().out)
    assert len(course["runs"]) == 2 and course["steps"] == []
    assert main(["history", str(tmp_path / "none.jsonl")]) == 2


def test_what_is_no_history_is_not_added_to(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "results.json"
    path.write_text('{"models": []}\n')
    assert main(["bench", str(MODEL), "--history", str(path), "--runs", "1", "--allow-noise"]) == 2
    assert "expected a line that fastgraph bench --history wrote" in capsys.readouterr().err
    assert path.read_text() == '{"models": []}\n'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_told_by_the_files_name() -> None:
    with pytest.raises(FileError, match="/dev/full: it can't be written: No space left"):
        history.append("/dev/full", [{}])
