"""`fastgraph bench --diff`: what got slower, what is noise, what can't be compared."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.tools.bench import diff

SHARED = {"noisy": False, "shared": 9, "kept": "all"}


def engine(name: str, ms: float, spread: float = 0.01, rounds: int = 60, version: str = "1") -> dict[str, Any]:
    rng = np.random.default_rng(len(name) + int(1e3 * ms))
    return {"name": name, "version": version, "medians_ms": (ms * np.exp(rng.normal(0, spread, rounds))).tolist()}


def model(*engines: dict[str, Any], path: str = "a/net.onnx", noisy: bool = False, **known: Any) -> dict[str, Any]:
    quiet = {"model": path, "threads": 1, "isa": "avx2", "inputs": {"x": [1]}, "disturbance": {"noisy": noisy}}
    return quiet | {"engines": list(engines)} | known


def save(path: Path, *models: dict[str, Any], **machine: Any) -> str:
    path.write_text(json.dumps({"machine": {"cpu": "A", "cpus": 2} | machine, "models": list(models)}))
    return str(path)


def compared(tmp_path: Path, old: dict[str, Any], new: dict[str, Any], **machine: Any) -> dict[str, Any]:
    return diff.diff(save(tmp_path / "old", old), save(tmp_path / "new", new, **machine))


@pytest.mark.parametrize(
    "ratio, spread, verdict, code",
    [(1.0, 0.01, "same", 0), (1.03, 0.001, "same", 0), (1.1, 0.01, "slower", 1), (0.9, 0.01, "faster", 0)],
)
def test_what_changed(tmp_path: Path, ratio: float, spread: float, verdict: str, code: int) -> None:
    old, new = model(engine("fastgraph", 2.0, spread)), model(engine("fastgraph", 2.0 * ratio, spread))
    found = compared(tmp_path, old, new)
    (row,) = found["rows"]
    assert row["verdict"] == verdict and diff.exit_code(found) == code
    assert row["change"] == pytest.approx(ratio, rel=0.02) and row["interval"][0] < ratio < row["interval"][1]
    assert row["old_ms"] == pytest.approx(2.0, rel=0.01)


def test_a_change_within_the_noise_is_unsure(tmp_path: Path) -> None:
    """Units are rounds: thousands of calls in three of them prove nothing."""
    few = [engine("fastgraph", ms, rounds=3) for ms in (2.0, 3.0)]
    found = compared(tmp_path, *map(model, few))
    assert found["rows"][0]["verdict"] == "unsure" and diff.exit_code(found) == 0
    wide = [engine("fastgraph", ms, spread=0.8) for ms in (2.0, 2.2)]
    assert compared(tmp_path, *map(model, wide))["rows"][0]["p"] > diff.SIGNIFICANT


def test_noise_makes_no_false_alarms() -> None:
    rng = np.random.default_rng(0)
    verdicts = []
    for _ in range(200):
        pair = [{"name": "e", "version": "1", "medians_ms": np.exp(rng.normal(0, 0.1, 100))} for _ in range(2)]
        verdicts.append(diff._rows("m", model(pair[0]), model(pair[1]), 0.0)[0]["verdict"])
    assert verdicts.count("slower") + verdicts.count("faster") <= 6


@pytest.mark.parametrize(
    "known, why",
    [
        ({"threads": 2}, "threads 1 and 2"),
        ({"inputs": {"x": [2]}}, "inputs"),
        ({"noisy": True}, "disturbed the new"),
        ({"disturbance": SHARED}, "shared the core of the new"),
    ],
)
def test_what_is_not_comparable_is_not_judged(tmp_path: Path, known: dict[str, Any], why: str) -> None:
    found = compared(tmp_path, model(engine("fastgraph", 1.0)), model(engine("fastgraph", 9.0), **known))
    assert found["rows"][0]["verdict"] == "not comparable" and why in found["rows"][0]["why"]
    assert diff.exit_code(found) == 2 and why in diff.text(found, 300)
    allowed = diff.diff(str(tmp_path / "old"), str(tmp_path / "new"), allow_noise=True)["rows"][0]["verdict"]
    assert allowed == ("slower" if {"noisy", "disturbance"} & known.keys() else "not comparable")


def test_other_machines_are_refused(tmp_path: Path, capsys: Any) -> None:
    old = save(tmp_path / "old", model(engine("fastgraph", 1.0)))
    new = save(tmp_path / "new", model(engine("fastgraph", 1.0)), cpu="B")
    assert main(["bench", "--diff", old, new]) == 2
    assert "can't be compared: cpu A and B" in capsys.readouterr().err
    other = save(tmp_path / "other", model(engine("fastgraph", 1.0), path="other.onnx"))
    assert main(["bench", "--diff", old, other]) == 2 and "no model in common" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"models": [1]}', '{"models": [], "machine": {}}'])
def test_other_files_are_refused(tmp_path: Path, capsys: Any, text: str) -> None:
    (tmp_path / "x").write_text(text)
    assert main(["bench", "--diff", str(tmp_path / "x"), str(tmp_path / "x")]) == 2
    assert "expected what fastgraph bench --json wrote" in capsys.readouterr().err


def test_files_are_found_by_name_and_engines_in_both(tmp_path: Path) -> None:
    twins = [model(engine("fastgraph", 1.0), path=f"{folder}/net.onnx") for folder in "ab"]
    assert list(diff._by_name(twins)) == ["a/net.onnx", "b/net.onnx"]
    old = model(engine("fastgraph", 1.0), engine("litert", 1.0), {"name": "openvino", "unavailable": "no"})
    new = model(engine("fastgraph", 1.0), engine("openvino", 1.0), path="elsewhere/net.onnx", isa="generic")
    found = compared(tmp_path, old, new, governor="powersave")
    assert [row["engine"] for row in found["rows"]] == ["fastgraph"]
    said = " ".join(found["notes"])
    assert "governor: None, then powersave" in said and "tier avx2, then generic" in said


def test_an_engine_that_nobody_changed_says_that_the_machine_did(tmp_path: Path) -> None:
    old = model(engine("fastgraph", 1.0), engine("litert", 1.0))
    found = compared(tmp_path, old, model(engine("fastgraph", 1.2), engine("litert", 1.2)))
    assert any("the machine itself seems to have changed: litert is slower" in note for note in found["notes"])
    newer = model(engine("fastgraph", 1.2), engine("litert", 1.2, version="2"))
    found = compared(tmp_path, old, newer)
    assert not found["notes"] and "1 -> 2" in diff.text(found, 200)


def test_the_command(tmp_path: Path, capsys: Any) -> None:
    old = save(tmp_path / "old", model(engine("fastgraph", 1.0)))
    new = save(tmp_path / "new", model(engine("fastgraph", 1.08)))
    assert main(["bench", "--diff", old, new]) == 1
    assert "slower" in capsys.readouterr().out
    assert main(["bench", "--diff", old, new, "--threshold", "10", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["verdict"] == "same"
    assert main(["bench", str(MODEL), "--diff", old, new]) == 2 and "measures nothing" in capsys.readouterr().err
    assert main(["bench"]) == 2 and "which model?" in capsys.readouterr().err


def test_what_bench_writes_is_read(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "x.json"
    assert main(["bench", str(MODEL), "--runs", "3", "--allow-noise", "--json", str(file)]) == 0
    found = diff.diff(str(file), str(file), allow_noise=True)
    assert found["rows"][0]["change"] == 1.0
    assert max(map(len, diff.text(found, 70).splitlines()[2:])) <= 70
