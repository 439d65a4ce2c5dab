"""Whole networks from files, where there are any: the same answer as onnxruntime or the stored one, natively.

$FASTGRAPH_ZOO is a folder that bench/zoo/make_onnx.py wrote; other files are looked for beside the repository, in
shared/models.
"""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import fastgraph as fg
from fastgraph.plan.program import HostStep
from tests.nets import assert_close, session

pytestmark = pytest.mark.slow

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "models"
ZOO = (
    "efficientnet_b0", "googlenet", "mobilenet_v2", "mobilenet_v3_large", "resnet18", "resnet50", "shufflenet_v2_x1_0",
    "squeezenet1_1",
)  # fmt: skip
HOT = {
    "conv", "conv_transpose", "max_pool", "average_pool", "lp_pool", "matmul", "dense", "gemm", "fused", "concat",
    "split", "resize", "transpose", "reshape", "pad", "softmax", "reduce_mean", "reduce_max", "reduce_sum",
}  # fmt: skip
RTOL = 1e-4
"""Of the largest number in an output."""

FILES = [
    path for each in ("onnx/*.onnx", "onnx/*/model.onnx", "basic_pitch/*.onnx") for path in sorted(SHARED.glob(each))
]


def label(path: Path) -> str:
    return path.parent.name if path.name == "model.onnx" else path.stem


def feeds_for(model: fg.Model) -> dict[str, np.ndarray]:
    """Random feeds; open extents are 1."""
    rng = np.random.default_rng(0)
    shapes = {s.name: tuple(d if isinstance(d, int) else 1 for d in s.shape or ()) for s in model.inputs}
    return {s.name: rng.standard_normal(shapes[s.name]).astype(s.dtype) for s in model.inputs}


def check_file(path: Path) -> None:
    model = fg.load(path, threads=2)
    feeds = feeds_for(model)
    found = model.run(feeds)
    for name, actual, expected in zip(found, found.values(), session(path.read_bytes()).run(None, feeds), strict=True):
        relative(actual, expected, name)
    again = model.run(feeds)
    for name, array in found.items():
        np.testing.assert_array_equal(again[name], array)
    slow = {step.node.op for step in model.plan.program.steps if isinstance(step, HostStep)} & HOT
    assert not slow, f"computed by NumPy: {slow}"
    assert model.plan.tail is None


def relative(actual: np.ndarray, expected: np.ndarray, name: str) -> None:
    assert expected.size and np.isfinite(expected).all()
    size = float(np.abs(expected).max())
    assert_close([actual / size], [expected / size], RTOL, name)


@pytest.mark.parametrize("name", ZOO)
def test_zoo(name: str) -> None:
    folder = os.environ.get("FASTGRAPH_ZOO")
    path = Path(folder or "", f"{name}.onnx")
    if not folder or not path.exists():
        pytest.skip("set FASTGRAPH_ZOO to a folder with the network: bench/zoo/make_onnx.py makes it")
    check_file(path)


@pytest.mark.skipif(not FILES, reason="no shared/models beside the repository")
@pytest.mark.parametrize("path", FILES, ids=label)
def test_file(path: Path) -> None:
    check_file(path)


def tensor(path: Path) -> np.ndarray:
    return numpy_helper.to_array(onnx.load_tensor(path))


SETS = [folder for path in FILES for folder in sorted(path.parent.glob("test_data_set_*"))]


@pytest.mark.skipif(not SETS, reason="no stored test data beside the repository")
@pytest.mark.parametrize("folder", SETS, ids=lambda f: f"{f.parent.name}-{f.name[-1]}")
def test_stored_data(folder: Path) -> None:
    model = fg.load(folder.parent / "model.onnx", threads=1)
    feeds = [tensor(folder / f"input_{i}.pb") for i in range(len(model.inputs))]
    for i, actual in enumerate(model.run({s.name: x for s, x in zip(model.inputs, feeds, strict=True)}).values()):
        relative(actual, tensor(folder / f"output_{i}.pb"), f"output {i}")
