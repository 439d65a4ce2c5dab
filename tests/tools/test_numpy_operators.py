"""`fastgraph inspect --host`: what NumPy computes of many files, without compiling or running any."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastgraph import compile as compiling
from fastgraph.cli import main
from fastgraph.demo import MODEL
from fastgraph.kernels.isa.tiers import NUMPY
from fastgraph.tools import numpy_operators
from tests.nets import Net


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Networks of which one has an operator that NumPy computes, twice, one is broken, and one can't be read. Nothing
    can be compiled.
    """
    monkeypatch.setattr(compiling, "objects", None)
    net = Net()
    x = net.input("x", ("n", 2, 8))
    y = net("Det", net("Reshape", net("Relu", x), [-1, 4, 4]))
    net.output(net("Add", y, net("Det", net("Reshape", x, [-1, 4, 4]))))
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "det.onnx").write_bytes(net.model().SerializeToString())
    (tmp_path / "digits.onnx").write_bytes(Path(MODEL).read_bytes())
    (tmp_path / "broken.tflite").write_bytes(b"nothing")
    (tmp_path / "gone.onnx").symlink_to(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("no network")
    return tmp_path


def test_a_folder(folder: Path, capsys: Any) -> None:
    assert main(["inspect", "--host", "--json", str(folder)]) == 2
    found = json.loads(capsys.readouterr().out)
    refused = [str(folder / name) for name in ("broken.tflite", "gone.onnx")]
    assert (found["files"], found["native"], list(found["refused"])) == (4, 1, refused)
    assert [(o["op"], o["nodes"], o["files"]) for o in found["operators"]] == [("det", 2, 1)]
    capsys.readouterr()
    assert main(["inspect", "--host", str(folder)]) == 2
    text, errors = capsys.readouterr()
    assert "4 files" in text and "det" in text and "2 without a plan" in text
    broken, gone = errors.splitlines()
    assert broken.startswith("error: ") and refused[0] in broken and gone.startswith("error: ") and refused[1] in gone


def test_it_shows_which_file_it_is_at(folder: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    numpy_operators.report([str(folder)], NUMPY, {}, progress=lambda *now: seen.append(now))
    names = ["broken.tflite", "digits.onnx", "gone.onnx", "det.onnx", ""]
    assert seen == [(number, 4, name) for number, name in enumerate(names)]


def test_without_kernels_all_is_numpy_s(capsys: Any) -> None:
    assert main(["inspect", "--host", "--json", "--isa", NUMPY.name, str(MODEL)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["files"], found["native"]) == (1, 0) and len(found["operators"]) > 1


def test_one_model_is_shown_and_json_is_for_what_has_it(capsys: Any) -> None:
    assert main(["inspect", str(MODEL), str(MODEL)]) == 2
    assert "--host" in capsys.readouterr().err
    assert main(["inspect", str(MODEL), "--json", "--memory"]) == 2
    assert "--host" in capsys.readouterr().err


def test_extents_that_do_not_go_together(tmp_path: Path, capsys: Any) -> None:
    """As a decoder's, whose mask is as long as its past and its words together."""
    net, file = Net(), tmp_path / "step.onnx"
    keys = net("Concat", net.input("past", (1, "past")), net.input("words", (1, "words")), axis=1)
    net.output(net("Add", keys, net("Concat", net.input("mask", (1, "all")), np.ones((1, 3), "f4"), axis=1)))
    file.write_bytes(net.model().SerializeToString())
    assert main(["inspect", "--host", str(file)]) == 2
    said = capsys.readouterr()
    assert "give numbers that go together, as --shape past=1,past --shape words=1,words ..." in said.err + said.out
    shapes = ["--shape", "past=1,4", "--shape", "words=1,1", "--shape", "mask=1,2"]
    assert main(["inspect", "--host", *shapes, str(file)]) == 0


def test_a_folder_without_networks(tmp_path: Path, capsys: Any) -> None:
    assert main(["inspect", "--host", str(tmp_path)]) == 2
    assert f"{tmp_path}: expected networks in this folder" in capsys.readouterr().err
