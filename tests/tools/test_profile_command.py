"""`fastgraph profile`: its table, its sums, the limits beside it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.ir import is_open
from fastgraph.runtime.executable import Executable
from fastgraph.text import table
from fastgraph.tools import profile
from fastgraph.tools.peaks import MachinePeaks
from tests.nets import F32, Net

DIGITS = str(MODEL)
MACHINE = MachinePeaks({"f32": 1e10, "bytes": 4e10}, ((1 << 14, 1e11), (1 << 20, 1e10)))


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: Any) -> None:
    monkeypatch.setattr(profile, "machine_peaks", lambda *_: MACHINE)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return profile.profile(fg.load(MODEL, threads=1).plan, 3, lambda *_: MACHINE)


def test_shares_are_of_what_binds(rows: list[dict[str, Any]]) -> None:
    assert {row["bound"] for row in rows} == {"compute", "memory"}
    for row in rows:
        computing, moving = row["macs"] / MACHINE.peaks["f32"], row["bytes"] / MACHINE.rate(row["bytes"])
        assert row["least_us"] == pytest.approx(1e6 * max(computing, moving))
        assert row["bound"] == ("compute" if computing > moving else "memory")
        assert row["share"] == pytest.approx(row["least_us"] / row["us"])


def test_sums_by_operator_are_those_of_the_rows(rows: list[dict[str, Any]]) -> None:
    whole, groups = profile.total(rows), profile.by_operator(rows)
    for key in ("steps", "us", "macs", "bytes", "least_us"):
        assert sum(group[key] for group in groups) == pytest.approx(whole[key])
    assert {group["op"]: group["steps"] for group in groups}["conv"] == sum(row["op"] == "conv" for row in rows)
    assert whole["share"] == pytest.approx(whole["least_us"] / whole["us"])


def test_bytes_of_a_dense_layer(rows: list[dict[str, Any]]) -> None:
    last = next(row for row in rows if row["op"] == "softmax")
    assert last["bytes"] == 2 * 10 * 4  # what it reads and writes


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_tables_fit(rows: list[dict[str, Any]], width: int) -> None:
    lines = profile.text(rows, width=width).splitlines()
    body = lines[: len(rows) + 1]
    assert max(map(len, body)) <= width
    assert all(head in body[0] for head in ("result", "us", "limit", *["GMAC/s"] * (width >= 80)))
    assert all(row["op"] in "".join(body) for row in rows)


def test_order(rows: list[dict[str, Any]]) -> None:
    def steps(sort: str) -> list[int]:
        return [int(line.split()[0]) for line in profile.text(rows, sort=sort).splitlines()[1 : len(rows) + 1]]

    assert steps("order") == sorted(steps("time"))
    assert steps("time")[0] == max(rows, key=lambda row: row["us"])["step"]


def test_json(capsys: Any) -> None:
    assert main(["profile", DIGITS, "--runs", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["total"]["steps"] == len(found["rows"]) and found["limits"]["peaks"] == MACHINE.peaks
    assert found["total"]["us"] == pytest.approx(sum(row["us"] for row in found["rows"]))


def test_by_operator_in_a_narrow_terminal(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.chdir(MODEL.parent)
    assert main(["profile", MODEL.name, "--runs", "2", "--by", "op"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("softmax") for line in lines) and all(len(line) <= 70 for line in lines)


def test_a_step_that_numpy_does_has_no_share() -> None:
    model = fg.load(MODEL, isa="numpy")
    rows = profile.profile(model.plan, 2, lambda *_: None)
    assert [row["kernel"] for row in rows] == ["numpy"] and rows[0]["share"] is None and rows[0]["us"] > 0
    assert "numpy" in profile.text(rows) and "machine" not in profile.text(rows)


def test_only_columns_that_may_are_shortened() -> None:
    lines = table([("name", "12345678901"), ("a" * 40, "x")], width=24, least={0: 8})
    assert max(map(len, lines)) <= 24 and "12345678901" in lines[0] and "…" in lines[1]


def large(rows: int | str) -> Net:
    """A network whose input is read where the caller has it."""
    net = Net()
    net.output(net("Neg", net.input("x", (rows, 1 << 16))))
    return net


@pytest.mark.parametrize("rows", [4, "n"])
@pytest.mark.parametrize("argv", [["profile", "--runs=1"], ["report", "--runs=1", "-o"], ["bench", "--profile"]])
def test_steps_are_timed_on_what_is_fed(
    rows: int | str, argv: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen, measure = [], profile.profile

    def seeing(plan: Executable, *how: Any) -> list[dict[str, Any]]:
        seen.append(plan.fed()["x"])
        return measure(plan, *how)

    monkeypatch.setattr(profile, "profile", seeing)
    (tmp_path / "net.onnx").write_bytes(large(rows).bytes())
    more = {"report": [str(tmp_path / "net.html")], "bench": ["--runs=1", "--allow-noise"]}.get(argv[0], [])
    assert main([*argv, *more, str(tmp_path / "net.onnx"), "--shape", "x=4,65536"]) == 0
    [x] = seen
    assert x.shape == (4, 1 << 16) and np.mean(x != 0) > 0.99


def test_plans_that_hold_feeds(tmp_path: Path) -> None:
    """Of a shape that a plan for many was made for, and of a saved program."""
    model, x = large("n").load(), np.ones((9, 1 << 16), F32)
    for n in range(2, 10):
        plan = profile.fed(model, {"x": x[:n]})
        np.testing.assert_array_equal(plan.fed()["x"], x[:n])
        model.run({"x": x[:n]})
    assert any(is_open(key.opens) for key in model._plans.keys())
    model.save(tmp_path / "net.fgm", shapes=[{"x": x.shape}])
    saved = profile.fed(fg.load(tmp_path / "net.fgm", threads=1), {"x": x})
    saved.execute()
    np.testing.assert_array_equal([*saved.results().values()], [-x])
