"""The network that ships with fastgraph, and the command that shows it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL, held_out, train
from fastgraph.kernels.isa.tiers import TIERS, usable
from tests.processes import python


@pytest.mark.parametrize("tier", [tier.name for tier in TIERS])
def test_accuracy_on_every_tier(capsys: Any, tier: str) -> None:
    if tier not in [one.name for one in usable()]:
        pytest.skip(f"ISA tier {tier}")
    assert main(["digits", "--isa", tier, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["accuracy"] >= 0.97 and found["digits"] == 454
    assert 0 < found["p50_us"] <= found["p99_us"]
    assert found["isa"] == tier and "numpy" not in found["kernels"]
    assert sum(found["kernels"].values()) == found["steps"]


def test_the_command_prints_what_the_readme_promises(capsys: Any) -> None:
    assert main(["digits"]) == 0
    out = capsys.readouterr().out
    for part in ("accuracy", "p50", "p99", "arena", "kernels"):
        assert part in out


def test_it_says_when_kernels_were_compiled(place: Path) -> None:
    """Only in the first of two processes with the same cache."""
    lines = []
    for _ in range(2):
        said = python("-m", "fastgraph", "digits", "--isa", "generic")
        lines += [line for line in said.splitlines() if line.startswith("loading")]
    assert ["compiled" in line for line in lines] == [True, False]


def test_its_files_are_for_the_other_commands(capsys: Any, tmp_path: Path) -> None:
    assert main(["digits", "--save", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().err.count("written: ") == 3
    files = [str(tmp_path / "new" / name) for name in ("digits.onnx", "image.npy", "labels.txt")]
    assert main(["run", files[0], "--input", files[1], "--labels", files[2], "--json"]) == 0
    (top,) = json.loads(capsys.readouterr().out)["top"]["probabilities"]
    names = Path(files[2]).read_text(encoding="utf-8").split()
    assert top[0]["label"] == names[held_out()[1][0]]


def test_probabilities_are_onnxruntimes() -> None:
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    model = fg.load(MODEL)
    for image in held_out()[0][:40]:
        expected = session.run(None, {"image": image})[0]
        np.testing.assert_allclose(model(image), expected, rtol=1e-4, atol=1e-6)


def test_the_digits_are_those_held_out() -> None:
    """What ships is the split of the training script, so nothing in it was trained on."""
    data = pytest.importorskip("sklearn.datasets").load_digits()
    training, held = train.split(data.target)
    assert not set(training) & set(held) and len(training) + len(held) == len(data.target)
    images, labels = held_out()
    np.testing.assert_array_equal(images[:, 0, 0] * 16, data.images[held])
    np.testing.assert_array_equal(labels, data.target[held])


def test_it_is_small() -> None:
    assert MODEL.stat().st_size < 200_000 and MODEL.with_suffix(".npz").stat().st_size < 20_000
