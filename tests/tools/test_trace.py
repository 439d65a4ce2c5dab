"""Traces for Perfetto: the fields that its format documents, times that fit in one another, names of all kinds."""

import json
from pathlib import Path
from typing import Any

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.plan.packing import Buffer
from fastgraph.tools.trace import live_bytes, trace
from tests.nets import Net

RUNS = 3


def checked(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a trace, once they have what the Trace Event Format asks for."""
    found = json.loads(json.dumps(found))
    assert set(found) >= {"traceEvents"} and found["displayTimeUnit"] in ("ms", "ns")
    for event in found["traceEvents"]:
        assert event["ph"] in "XCM" and isinstance(event["name"], str) and event["name"]
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert isinstance(event["ts"], int | float) and event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0 and isinstance(event["cat"], str)
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str)
    return list(found["traceEvents"])


def test_runs_hold_their_steps() -> None:
    plan = fg.load(MODEL, threads=1).plan
    events = checked(trace(plan, RUNS))
    runs = [event for event in events if event.get("cat") == "run"]
    steps = [event for event in events if event.get("cat") == "step"]
    assert len(runs) == RUNS and len(steps) == RUNS * len(plan.program.steps)
    for turn, run in enumerate(runs):
        inside = steps[turn * len(plan.program.steps) :][: len(plan.program.steps)]
        assert [each["args"]["step"] for each in inside] == list(range(len(plan.program.steps)))
        ends = [run["ts"]]
        for each in inside:
            assert each["ts"] >= ends[-1] - 1e-3
            ends.append(each["ts"] + each["dur"])
        assert ends[-1] <= run["ts"] + run["dur"] + 1e-3
    first = steps[0]["args"]
    assert first["operator"] == "conv" and first["kernel"] and first["bytes"] > 0 and first["multiply-adds"] > 0
    assert first["inputs"][0].startswith("float32[")


def test_live_bytes() -> None:
    buffers = [Buffer("a", 0, 1, 10), Buffer("b", 1, 2, 5), Buffer("c", 2, 2, 1)]
    assert live_bytes(buffers, 3).tolist() == [10, 15, 6]
    arena = fg.load(MODEL, threads=1).plan.program.arena
    counted = [e["args"]["live bytes"] for e in checked(trace(fg.load(MODEL, threads=1).plan, 1)) if e["ph"] == "C"]
    assert arena is not None and max(counted) == arena.bound


def test_numpy_between_native_steps_is_a_span() -> None:
    events = checked(trace(fg.load(MODEL, isa="numpy").plan, 1))
    assert [event["cat"] for event in events if event["ph"] == "X"] == ["run", "numpy"]


def test_hostile_names() -> None:
    net, name = Net(), '"}<script>\x1b[2J\n'
    net.output(net("Relu", net("Add", net.input(name, (2, 3)), [1.0, 2.0, 3.0])))
    assert checked(trace(net.load().plan, 1, name))[0]["args"]["name"] == f"fastgraph: {name}"


def test_the_command_writes_it(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "net.json"
    assert main(["profile", str(MODEL), "--runs", "1", "--trace", str(file)]) == 0
    assert "perfetto" in capsys.readouterr().err
    assert checked(json.loads(file.read_text()))
    assert main(["profile", str(MODEL), "--trace", str(tmp_path / "none" / "x.json")]) == 2
