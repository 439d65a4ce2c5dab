"""Whole .tflite networks: the same answers as LiteRT on random inputs, and the right ones on pictures.

MLPerf Tiny's and TensorFlow's networks are looked for beside the repository; $FASTGRAPH_ZOO is a folder of full-size
ones, made by bench/zoo/make_tflite.py.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

import fastgraph as fg
from fastgraph.plan.program import HostStep
from fastgraph.tools.feeds import random_feeds
from fastgraph.tools.images import read_image

litert = pytest.importorskip("ai_edge_litert.interpreter")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
pytestmark = pytest.mark.slow

MODELS = Path(__file__).resolve().parents[2].parent / "shared" / "models"
ZOO = os.environ.get("FASTGRAPH_ZOO", "")
PERSON = MODELS / "tflite" / "person_detect.tflite"
FILES = [*sorted(MODELS.glob("mlperf_tiny/*.tflite")), *sorted(MODELS.glob("tflite/*.tflite"))]
FILES = [path for path in FILES if path != PERSON]
HYBRID = {"kws_dscnn_fp32"}
"""Float networks with int8 weights: LiteRT's delegate rounds activations in its own way, so its kernels are asked."""
ONE_STEP = 5e-3
"""Of such networks: a last bit, of sums in another order, can round an activation to the next byte."""
RUNS = 200


def interpreter(source: bytes, delegate: bool = True) -> Callable[[np.ndarray], np.ndarray]:
    """LiteRT on one thread as a function of the one input, with its default delegate or by its own kernels."""
    kinds = litert.OpResolverType
    kernels = kinds.AUTO if delegate else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    runner = litert.Interpreter(model_content=source, num_threads=1, experimental_op_resolver_type=kernels)
    runner.allocate_tensors()
    (x,), (y,) = runner.get_input_details(), runner.get_output_details()

    def run(array: np.ndarray) -> np.ndarray:
        runner.set_tensor(x["index"], array)
        runner.invoke()
        return runner.get_tensor(y["index"])

    return run


def inputs(model: fg.Model, count: int) -> list[np.ndarray]:
    """Random arrays for the one input."""
    (spec,) = model.inputs
    return [random_feeds(model, {}, seed)[spec.name] for seed in range(count)]


def answers(source: bytes, count: int, delegate: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """fastgraph's and LiteRT's flat outputs, a row for each input; each step of fastgraph's is native."""
    model, reference = fg.load(source, threads=1), interpreter(source, delegate)
    arrays = inputs(model, count)
    found = np.stack([model(x).ravel() for x in arrays])
    host = [step.node.op for step in model.plan.program.steps if isinstance(step, HostStep)]
    assert not host, f"computed by NumPy: {host}"
    return found, np.stack([reference(x).ravel() for x in arrays])


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference over the largest number."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


@pytest.mark.skipif(not FILES, reason="no shared/models beside the repository")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_agrees_with_litert(path: Path) -> None:
    found, expected = answers(path.read_bytes(), RUNS, delegate=path.stem not in HYBRID)
    assert found.dtype == expected.dtype and expected.min() < expected.max()
    if found.dtype.kind == "f":
        apart = np.abs(found - expected).max(axis=1) / np.abs(expected).max()
        assert np.median(apart) <= 1e-6 and apart.max() <= (ONE_STEP if path.stem in HYBRID else 1e-4)
        return
    steps = np.abs(found.astype(int) - expected)
    assert (steps == 0).mean() >= 0.99 and steps.max() <= layers(path)
    assert_same_class(found, expected)


def assert_same_class(found: np.ndarray, expected: np.ndarray) -> None:
    """fastgraph's class is LiteRT's, or one that LiteRT puts a step below."""
    chosen = np.take_along_axis(expected, found.argmax(axis=1)[:, None], 1)[:, 0]
    assert (chosen.astype(int) >= expected.max(axis=1).astype(int) - 1).all()


def layers(path: Path) -> int:
    """How many operators a file has: roundings that may each be a step off."""
    return schema.Model.GetRootAs(path.read_bytes(), 0).Subgraphs(0).OperatorsLength()


@pytest.mark.skipif(not PERSON.exists(), reason="no shared/models beside the repository")
@pytest.mark.parametrize("name, person", [("person", True), ("no_person", False)])
def test_persons_are_detected(name: str, person: bool) -> None:
    """LiteRT refuses the file. The pictures hold the input's bytes, as TensorFlow Lite Micro's own test takes them."""
    pixels = read_image(str(PERSON.with_name(f"{name}.bmp")))[..., :1].view(np.int8)
    no, yes = fg.load(PERSON, threads=1)(np.ascontiguousarray(pixels[None]))[0]
    assert (yes > no) == person


# -- full size


def zoo(name: str) -> bytes:
    path = Path(ZOO, f"{name}.tflite")
    if not ZOO or not path.exists():
        pytest.skip(f"set FASTGRAPH_ZOO to a folder with {path.name}: bench/zoo/make_tflite.py makes it")
    return path.read_bytes()


NETWORKS = ("mobilenet", "mobilenetv2", "resnet50", "efficientnetb0")


@pytest.mark.parametrize("kind, most", [("f32", 1e-4), ("f16", 1e-4), ("dynamic", ONE_STEP)])
@pytest.mark.parametrize("name", NETWORKS)
def test_floats_of_full_size(name: str, kind: str, most: float) -> None:
    found, expected = answers(zoo(f"{name}.{kind}"), 2, delegate=kind != "dynamic")
    assert relative(found, expected) <= most


@pytest.mark.parametrize("name", NETWORKS)
def test_int8_of_full_size(name: str, record_property: Any) -> None:
    """The numbers before the softmax: random weights leave nothing to see after it."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(bytearray(zoo(f"{name}.int8")), 0))
    graph = model.subgraphs[0]
    graph.outputs, model.signatureDefs = [graph.operators[-1].inputs[0]], None
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    found, expected = answers(bytes(builder.Output()), 3)
    steps = np.abs(found.astype(int) - expected)
    record_property("identical", float((steps == 0).mean()))
    assert_same_class(found, expected)
    assert steps.max() <= 3 and (steps == 0).mean() >= 0.5 and len(np.unique(expected)) > 100
