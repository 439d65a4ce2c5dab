"""Samsung ONE's recipes, as .tflite and .circle: all run, and agree with LiteRT's reference kernels."""

import numpy as np
import pytest

import fastgraph
from fastgraph.errors import ModelError
from fastgraph.ir import Value
from tests.circle.circle_models import SHARED, by_references, compare, opened

FOLDER = SHARED / "recipes"
NAMES = sorted(path.stem for path in FOLDER.glob("*.tflite"))
pytestmark = pytest.mark.skipif(not NAMES, reason="no shared/models/recipes beside the repository")

INVALID = {
    "ExpandDims_001": "an axis 1 put into a scalar",
    "ExpandDims_002": "an axis 1 put into a scalar",
    "MaxPoolWithArgmax_000": "a window whose size and stride are nowhere said",
    "PadV2_000": "floats padded with an int32",
    "Slice_001": "a slice that begins at -1",
}
"""What the format's own rules don't allow; LiteRT refuses them too."""

OFF_BY_ONE = {
    "LocalResponseNormalization_000": "LiteRT's reference kernel, unlike its default one and TensorFlow, leaves out "
    "the last of the 2 * radius + 1 channels"
}
TRANSCENDENTAL = ("Logistic", "Tanh", "Softmax", "LogSoftmax", "ELU", "Pow", "Cos", "Log_", "Rsqrt", "LSTM", "Gelu")


def _sample(value: Value, rng: np.random.Generator) -> np.ndarray:
    dims, dtype = [d if isinstance(d, int) else 2 for d in value.type.shape or ()], value.type.dtype
    assert dtype is not None
    if dtype.kind == "f":
        return rng.standard_normal(dims).astype(dtype)
    return np.asarray(rng.integers(0, 2, dims)).astype(dtype)


def _arrays(name: str, kind: str, values: list[Value]) -> list[np.ndarray]:
    """The reference's inputs ("in") or outputs ("out"); none without a reference."""
    archive = FOLDER / f"{name}.npz"
    if not archive.exists():
        return []
    with np.load(archive) as arrays:
        return [arrays[f"{kind}{i}"] for i in range(len(values))]


def _inputs(name: str, values: list[Value]) -> list[np.ndarray]:
    return _arrays(name, "in", values) or [_sample(v, np.random.default_rng(1)) for v in values]


def _files(name: str) -> tuple[list[np.ndarray], list[np.ndarray], list[Value]]:
    """(outputs of the .tflite, reference outputs or none, output values); the .circle must give the same bits."""
    graphs = [opened(FOLDER / f"{name}.{kind}") for kind in ("tflite", "circle")]
    inputs = _inputs(name, graphs[0].inputs)
    found, same = (by_references(graph, inputs) for graph in graphs)
    for a, b in zip(found, same, strict=True):
        np.testing.assert_array_equal(a, b)
    return found, _arrays(name, "out", graphs[0].outputs), graphs[0].outputs


def _normalized(name: str) -> np.ndarray:
    """x / sqrt(1 + the sum of squares over 5 channels to both sides), what the recipe asks for."""
    with np.load(FOLDER / f"{name}.npz") as arrays:
        x = arrays["in0"].astype(np.float64)
    near = np.abs(np.subtract.outer(np.arange(x.shape[-1]), np.arange(x.shape[-1]))) <= 5
    return (x / np.sqrt(1 + (x * x) @ near)).astype(np.float32)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in INVALID])
def test_a_recipe_runs_and_agrees(name: str) -> None:
    found, wanted, values = _files(name)
    relative = 1e-4 if any(word in name for word in TRANSCENDENTAL) else 1e-5
    if name in OFF_BY_ONE:
        wanted = [_normalized(name)]
    for value, y, expected in zip(values, found, wanted or found, strict=True):
        compare(name, value, y, expected, relative)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if n not in INVALID])
def test_the_kernels_give_what_the_references_give(name: str) -> None:
    graph = opened(FOLDER / f"{name}.tflite")
    inputs = _inputs(name, graph.inputs)
    wanted = by_references(graph, inputs)
    models = [fastgraph.load(FOLDER / f"{name}.{kind}") for kind in ("tflite", "circle")]
    found, same = ([*m.run(dict(zip((s.name for s in m.inputs), inputs, strict=True))).values()] for m in models)
    for value, y, twin, expected in zip(graph.outputs, found, same, wanted, strict=True):
        np.testing.assert_array_equal(y, twin)
        compare(name, value, y, expected, 1e-4)


@pytest.mark.parametrize("name", [n for n in NAMES if n in INVALID])
@pytest.mark.parametrize("kind", ["tflite", "circle"])
def test_an_invalid_recipe_is_refused(name: str, kind: str) -> None:
    with pytest.raises(ModelError, match=name):
        opened(FOLDER / f"{name}.{kind}")
