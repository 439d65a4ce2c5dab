"""Whole networks as Core ML packages: as PyTorch computes them, and as coremltools decodes their weights.

$FASTGRAPH_ZOO is a folder that bench/zoo/make_mil.py wrote. Weights of 8 bits and palettes are compared with the same
packages, decompressed by coremltools.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import numpy_steps

FOLDER = Path(os.environ.get("FASTGRAPH_ZOO") or "nowhere")
NAMES = ("mobilenet_v2", "squeezenet1_1", "mobilenet_v3_small")

pytestmark = pytest.mark.slow


def load(name: str) -> fg.Model:
    path = FOLDER / f"{name}.mlpackage"
    if not path.exists():
        pytest.skip(f"no {path.name} in $FASTGRAPH_ZOO")
    return fg.load(path, threads=2)


def answer(model: fg.Model, x: np.ndarray) -> np.ndarray:
    """What it gives for x, in float64."""
    (spec,) = model.inputs
    (y,) = model.run({spec.name: x.astype(spec.dtype)}).values()
    return y.astype(np.float64)


def near(found: np.ndarray, wanted: np.ndarray, relative: float) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=relative * np.abs(wanted).max())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind, relative", [("f32", 1e-4), ("f16", 2e-2)])
def test_a_network_gives_what_pytorch_gives(name: str, kind: str, relative: float) -> None:
    model = load(f"{name}.{kind}")
    with np.load(FOLDER / f"{name}.npz") as stored:
        near(answer(model, stored["x"]), stored["y"], relative)
    assert not numpy_steps(model)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["w8", "pal4"])
def test_compressed_weights_are_what_coremltools_says(name: str, kind: str) -> None:
    model, dense = load(f"{name}.{kind}"), load(f"{name}.{kind}.dense")
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224))
    near(answer(model, x), answer(dense, x), 1e-3)


@pytest.mark.parametrize("name", ["mobilenet_v2", "squeezenet1_1"])
def test_a_package_is_planned_as_its_onnx_twin(name: str) -> None:
    model, path = load(f"{name}.f32"), FOLDER / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"no {path.name} in $FASTGRAPH_ZOO")
    twin = fg.load(path, threads=2)
    assert [step.node.op for step in model.plan.program.steps] == [step.node.op for step in twin.plan.program.steps]
    assert model.arena_bytes <= 1.05 * twin.arena_bytes
