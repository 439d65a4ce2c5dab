"""`fastgraph run --expect`, and ONNX's test data as inputs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.demo import MODEL

SHARED = Path(__file__).parents[3] / "shared" / "models" / "onnx"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A digit, and what the network makes of it, as ONNX's test data and as files of NumPy's."""
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    result = fg.load(MODEL, threads=1)(image)
    for name, array in (("input_0.pb", image), ("output_0.pb", result)):
        (tmp_path / name).write_bytes(numpy_helper.from_array(array).SerializeToString())
    np.save(tmp_path / "image.npy", image)
    np.save(tmp_path / "result.npy", result)
    np.savez(tmp_path / "result.npz", probabilities=result)
    return tmp_path


@pytest.mark.parametrize("given", ["", "input_0.pb", "image.npy"])
@pytest.mark.parametrize("wanted", ["", "output_0.pb", "result.npy", "result.npz"])
def test_as_expected(folder: Path, given: str, wanted: str, capsys: Any) -> None:
    assert main(["run", str(MODEL), "--input", str(folder / given), "--expect", str(folder / wanted)]) == 0
    assert "outputs are as expected" in capsys.readouterr().out


def test_a_named_input(folder: Path, capsys: Any) -> None:
    given = f"image={folder / 'input_0.pb'}"
    assert main(["run", str(MODEL), "--input", given, "--expect", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []


def test_not_as_expected(folder: Path, capsys: Any) -> None:
    wrong = np.load(folder / "result.npy")
    wrong[0, 3] += 0.01
    np.save(folder / "wrong.npy", wrong)
    np.save(folder / "shape.npy", wrong[0])
    arguments = ["run", str(MODEL), "--input", str(folder)]
    assert main([*arguments, "--expect", str(folder / "wrong.npy")]) == 1
    assert "probabilities: 1 of 10 numbers differ: at [0, 3] expected" in capsys.readouterr().out
    assert main([*arguments, "--expect", str(folder / "shape.npy")]) == 1
    assert "expected float32[10], found float32[1, 10]" in capsys.readouterr().out


@pytest.mark.parametrize("name, content, said", [
    ("x.pb", b"\xff\xff", "expected a TensorProto"), ("x.npy", b"text", "no arrays"),
    ("x.npz", None, "no output is called"), ("folder", None, "expected output_0.pb"),
])  # fmt: skip
def test_what_nothing_can_be_compared_with(
    folder: Path, name: str, content: bytes | None, said: str, capsys: Any
) -> None:
    path = folder / name
    if content is not None:
        path.write_bytes(content)
    elif name == "folder":
        path.mkdir()
    else:
        np.savez(path, other=np.zeros(3))
    assert main(["run", str(MODEL), "--input", str(folder), "--expect", str(path)]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_more_inputs_than_there_are(folder: Path, capsys: Any) -> None:
    (folder / "input_1.pb").write_bytes((folder / "input_0.pb").read_bytes())
    assert main(["run", str(MODEL), "--input", str(folder)]) == 2
    assert "expected input_0.pb to input_0.pb at most" in capsys.readouterr().err


@pytest.mark.skipif(not SHARED.exists(), reason="no ../shared/models beside the repository")
def test_networks_with_test_data(capsys: Any) -> None:
    """All of the stored ones that come with ONNX's test data."""
    found = sorted(SHARED.glob("*/test_data_set_0"))
    assert found
    for data in found:
        (model,) = data.parent.glob("*.onnx")
        arguments = ["--shape", f"input={','.join(map(str, _dims(data)))}"] if "super" in data.parent.name else []
        assert main(["run", str(model), "--input", str(data), "--expect", str(data), *arguments]) == 0, data


def _dims(data: Path) -> tuple[int, ...]:
    import onnx

    tensor = onnx.TensorProto()
    tensor.ParseFromString((data / "input_0.pb").read_bytes())
    return tuple(tensor.dims)
