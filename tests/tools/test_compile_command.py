"""`fastgraph compile`, and the other commands with what it writes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.saved.container import WEIGHTS, held
from fastgraph.tools.saved import shape_sets
from tests.nets import Net
from tests.processes import python


@pytest.fixture
def program(tmp_path: Path, capsys: Any) -> str:
    place = str(tmp_path / "digits.fgm")
    assert main(["compile", str(MODEL), "-o", place, "--threads", "1"]) == 0
    capsys.readouterr()
    return place


@pytest.fixture
def open_net(tmp_path: Path) -> str:
    net = Net()
    net.output(net("MatMul", net.input("x", ("n", 4)), net.weight(4, 3)))
    (tmp_path / "open.onnx").write_bytes(net.bytes())
    return str(tmp_path / "open.onnx")


def test_it_says_what_it_wrote(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", str(MODEL), "--isa", "generic,avx2", "--threads", "1,2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (tmp_path / "digits.fgm").stat().st_size == found["file"]["bytes"] and found["graph"]
    plans = [(plan["tier"], plan["threads"], plan["shapes"]) for plan in found["plans"]]
    assert plans == [(tier, n, {"image": [1, 1, 8, 8]}) for tier in ("generic", "avx2") for n in (1, 2)]
    assert found["source"]["name"] == "digits.onnx" and len(found["source"]["sha256"]) == 64


def test_a_program_made_of_a_program_names_the_model_file(program: str, tmp_path: Path, capsys: Any) -> None:
    place = str(tmp_path / "again.fgm")
    assert main(["compile", program, "-o", place, "--threads", "2"]) == 0
    assert "digits.onnx, SHA-256" in capsys.readouterr().out
    assert main(["inspect", place, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["source"]
    assert main(["inspect", program, "--json"]) == 0
    assert again == json.loads(capsys.readouterr().out)["source"]


def test_several_shapes(open_net: str, tmp_path: Path, capsys: Any) -> None:
    place = str(tmp_path / "open.fgm")
    shapes = ["--shape", "x=2,4", "--shape", "x=5,4"]
    assert main(["compile", open_net, "-o", place, "--no-graph", *shapes]) == 0
    out = capsys.readouterr().out
    assert "x=2,4" in out and "x=5,4" in out and "not in it" in out
    model = fg.load(place)
    assert [model(np.ones((n, 4), np.float32)).shape for n in (5, 2)] == [(5, 3), (2, 3)]
    with pytest.raises(fg.InputError, match=r"runs .*\(2, 4\).* or .*\(5, 4\)"):
        model(np.ones((3, 4), np.float32))


def test_a_batch_is_taken_for_granted(open_net: str, tmp_path: Path, capsys: Any) -> None:
    place = str(tmp_path / "open.fgm")
    assert main(["compile", open_net, "-o", place]) == 0
    assert "x=1,4" in capsys.readouterr().err and fg.load(place).arena_bytes > 0


def test_a_name_that_comes_again_begins_a_set() -> None:
    assert shape_sets(["x=1,2", "y=3", "x=4,2", "y=5", "x=6,2"]) == [
        {"x": (1, 2), "y": (3,)}, {"x": (4, 2), "y": (5,)}, {"x": (6, 2), "y": (5,)},
    ]  # fmt: skip


@pytest.mark.parametrize("args, said", [
    (["--isa", "sse9"], "sse9"), (["--isa", "numpy"], "no machine code"), (["--threads", "0"], "whole numbers"),
    (["--threads", "1,x"], "whole numbers"), (["-o", "/nowhere/x.fgm"], "nowhere"), (["--shape", "y=1"], "'y'"),
])  # fmt: skip
def test_what_cannot_be_saved(args: list[str], said: str, tmp_path: Path, capsys: Any) -> None:
    output = [] if "-o" in args else ["-o", str(tmp_path / "x.fgm")]
    assert main(["compile", str(MODEL), *output, *args]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1 and not list(tmp_path.iterdir())


def test_inspect_runs_nothing(program: str, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastgraph.objects import code

    monkeypatch.setattr(code, "place", lambda image: 1 / 0)
    assert main(["inspect", program, "--check"]) == 0
    out = capsys.readouterr().out
    assert "all hold" in out and "image: float32[1,1,8,8]" in out and "code/" in out


def test_inspect_finds_damaged_weights(program: str, capsys: Any) -> None:
    data = bytearray(Path(program).read_bytes())
    file = held(bytes(data), program)
    section = WEIGHTS if file.sections[WEIGHTS][1] else "tables"  # where no array is large
    data[file._start + file.sections[section][0] + 500] ^= 1
    Path(program).write_bytes(data)
    assert main(["inspect", program]) == 0
    capsys.readouterr()
    assert main(["inspect", program, "--check"]) == 2
    assert f"damaged: its section '{section}'" in capsys.readouterr().err
    assert main(["inspect", str(MODEL), "--check"]) == 2


@pytest.mark.parametrize("command", [
    ["run", "--random"], ["verify"], ["inspect", "--memory"], ["inspect", "--graph"], ["inspect", "--asm", "0"],
    ["inspect", "--stages"], ["bench", "--runs", "3", "--allow-noise"],
])  # fmt: skip
def test_the_other_commands(command: list[str], program: str, capsys: Any) -> None:
    assert main([command[0], program, *command[1:]]) == 0
    assert capsys.readouterr().out


def test_without_its_graph(tmp_path: Path, capsys: Any) -> None:
    """What needs no nodes works; what does says which file to take."""
    place = str(tmp_path / "digits.fgm")
    assert main(["compile", str(MODEL), "-o", place, "--no-graph"]) == 0
    assert main(["run", place, "--random"]) == 0
    assert main(["bench", place, "--runs", "3", "--allow-noise", "--against", "onnxruntime"]) == 0
    assert "reads no saved programs" in capsys.readouterr().out
    for command in (["verify", place], ["inspect", place, "--memory"], ["bench", place, "--profile", "--runs", "3"]):
        assert main(command) == 2
        assert "saved without its graph" in (err := capsys.readouterr().err) and "digits.onnx" in err


def test_compiled_alone(program: str) -> None:
    """The command's own process, and one that loads what it wrote."""
    code = "import fastgraph as fg, sys, numpy as np; print(fg.load(sys.argv[1])(np.ones((1, 1, 8, 8), 'f4')).shape)"
    assert python("-c", code, program) == "(1, 10)\n"
