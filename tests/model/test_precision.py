"""What `precision` says goes from `load` to plans, files and tools."""

from pathlib import Path

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.kernels.isa.tiers import PRECISIONS
from fastgraph.tools.bench import compare, text
from fastgraph.tools.verify import verify
from tests.nets import Net


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net = Net()
    weights = net.rng.normal(0, 0.1, (64, 96)).astype(np.float32)
    net.output(net("MatMul", net.input("x", (70, 64), np.float32), weights))
    place = tmp_path_factory.mktemp("precision") / "dense.onnx"
    place.write_bytes(net.bytes())
    return place


@pytest.mark.parametrize("precision", PRECISIONS)
def test_models_know_their_precision(path: Path, tmp_path: Path, precision: str) -> None:
    model = fg.load(path, precision=precision, threads=1)
    assert model.precision == model.clone().precision == model.plan.graph.precision == precision
    for shown in (repr(model), str(model), model.plan.text()):
        assert (f"{model.tier.name} {precision}" in shown) == (precision != "float32")
    model.save(tmp_path / "dense.fgm")
    saved = fg.load(tmp_path / "dense.fgm", threads=1)
    assert saved.precision == precision
    x = np.random.default_rng(0).normal(size=(70, 64)).astype(np.float32)
    np.testing.assert_array_equal(saved(x), model(x))
    assert verify(model).ok


def test_a_saved_program_has_its_own(path: Path, tmp_path: Path) -> None:
    fg.load(path, threads=1).save(tmp_path / "dense.fgm")
    with pytest.raises(fg.InputError, match="precision='bfloat16': a saved program is what it was saved as"):
        fg.load(tmp_path / "dense.fgm", precision="bfloat16")


def test_others_are_refused(path: Path) -> None:
    with pytest.raises(fg.InputError, match="precision='float8': expected one of float32, .*, bfloat16"):
        fg.load(path, precision="float8")


def test_bench_says_it(path: Path) -> None:
    x = np.ones((70, 64), np.float32)
    found = compare(str(path), {"x": x}, ["openvino"], rounds=1, precision="bfloat16")
    assert found["precision"] == "bfloat16"
    assert "bfloat16, 1 thread" in text(found)
