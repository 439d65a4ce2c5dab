"""The commands on real .tflite files, which are looked for beside the repository."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.cli import main
from fastgraph.tools.agreement import is_hybrid

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "models"
MODELS = SHARED / "tflite"
SPEECH, HELLO = str(MODELS / "micro_speech_quantized.tflite"), str(MODELS / "hello_world_int8.tflite")
pytestmark = pytest.mark.skipif(not MODELS.exists(), reason="no shared/models beside the repository")


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The stdout of a command that succeeds."""
    assert main(argv) == 0, capsys.readouterr()
    return capsys.readouterr().out


CATS = {"Egyptian cat", "tabby, tabby cat", "tiger cat", "Persian cat", "Siamese cat, Siamese"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v1_0.25_128_quant", "mobilenet_v2_1.0_224_quant"])
def test_the_cat_is_a_cat(capsys: Any, name: str) -> None:
    command = ["run", str(MODELS / f"{name}.tflite"), "--input", str(MODELS / "cat.bmp"), "--repeat", "1"]
    command += ["--labels", str(MODELS / "imagenet_labels.txt"), "--top", "3"]
    (rows,) = json.loads(printed(capsys, *command, "--json"))["top"].values()
    assert len(rows[0]) == 3 and rows[0][0]["label"] in CATS
    assert rows[0][0]["label"] in printed(capsys, *command)


@pytest.mark.slow
@pytest.mark.parametrize("name, label", [("person", "person"), ("no_person", "nobody")])
def test_persons_are_named(capsys: Any, tmp_path: Path, name: str, label: str) -> None:
    (tmp_path / "labels.txt").write_text("nobody\nperson\n")
    command = ["run", str(MODELS / "person_detect.tflite"), "--input", str(MODELS / f"{name}.bmp"), "--stored-pixels"]
    found = json.loads(printed(capsys, *command, "--labels", str(tmp_path / "labels.txt"), "--json"))
    ((rows,),) = found["top"].values()
    assert rows[0]["label"] == label and rows[0]["probability"] > 0.7


def test_floats_at_the_edges_of_a_quantized_network(capsys: Any, tmp_path: Path) -> None:
    """hello_world is a sine."""
    x = np.linspace(0, 6, 13, dtype=np.float32)[:, None]
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "out.npz"
    text = printed(capsys, "run", HELLO, "--input", f"{tmp_path}/x.npy", "--float-io", "--output", str(out))
    with np.load(out) as arrays:
        (y,) = (arrays[name] for name in arrays.files)
    assert "float32[13,1]" in text and y.dtype == np.float32
    np.testing.assert_allclose(y, np.sin(x), atol=0.12)


def test_inspect_shows_quantization_and_kernels(capsys: Any) -> None:
    text = printed(capsys, "inspect", SPEECH)
    assert 'TensorFlow Lite ("TOCO Converted.")' in text and "4 nodes" in text
    assert "int8[1,1960] {0.101716 * (q + 128)}" in text and "int8[1,4] {0.00390625 * (q + 128)}" in text
    assert "int8[8,10,8,1] {8 scales along axis 0}" in text and "conv_int8" in text
    found = json.loads(printed(capsys, "inspect", SPEECH, "--json"))
    assert found["file"]["format"] == "tflite" and found["file"]["version"] == 3
    scales = found["inputs"][0]["quantization"]
    assert scales["zero_point"] == [-128] and scales["scale"] == [pytest.approx(0.101716, rel=1e-5)]
    assert any("int8[8,10,8,1]" in weights for step in found["plan"]["steps"] for weights in step["weights"])
    assert sum(step["macs"] for step in found["plan"]["steps"]) == 25 * 20 * 8 * 80 + 4 * 4000
    stages = printed(capsys, "inspect", SPEECH, "--stages")
    assert "{8 scales along axis 0}" in stages and stages.startswith("-- read")


def test_shapes_that_the_file_names_are_taken(capsys: Any) -> None:
    """hello_world's batch is open, and said to be 1."""
    assert "int8[?,1]" in printed(capsys, "inspect", HELLO)
    assert "row_int8" in printed(capsys, "inspect", HELLO)
    assert "-- to_integers" in printed(capsys, "inspect", HELLO, "--stages")
    assert "int8[1,1]" in printed(capsys, "run", HELLO, "--random")
    assert "int8[7,1]" in printed(capsys, "run", HELLO, "--random", "--shape", "dense_input=7,1")


def test_inspect_reads_circle_files(capsys: Any) -> None:
    assert "Circle" in printed(capsys, "inspect", str(SHARED / "recipes" / "Add_000.circle"))


def test_bench_against_the_engines_that_run_it(capsys: Any) -> None:
    pytest.importorskip("ai_edge_litert")
    text = printed(capsys, "bench", SPEECH, HELLO, "--against", "litert,onnxruntime", "--runs", "2", "--allow-noise")
    assert "0.00%, 0" in text and "onnxruntime: can't run this model" in text
    assert "geometric mean of the ratios" in text and "to litert" in text


def test_float_networks_with_integer_weights_are_compared_less_closely(capsys: Any) -> None:
    pytest.importorskip("ai_edge_litert")
    path = str(SHARED / "mlperf_tiny" / "kws_dscnn_fp32.tflite")
    assert is_hybrid(fg.load(path, threads=1).graph) and not is_hybrid(fg.load(SPEECH, threads=1).graph)
    assert "DISAGREES" not in printed(capsys, "bench", path, "--against", "litert", "--runs", "1", "--allow-noise")


def test_models_carry_their_quantization() -> None:
    spec = fg.load(SPEECH, threads=1).inputs[0]
    assert spec.quantization is not None and spec.quantization.zero_point == (-128,)
