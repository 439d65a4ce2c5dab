"""Samsung ONE's onert-micro test models: each gives the reference of its test header, each invalid one is refused."""

from pathlib import Path

import numpy as np
import pytest

from fastgraph.errors import FastgraphError
from fastgraph.ir import Graph
from tests.circle.circle_models import SHARED, by_references, compare, opened

FOLDER = SHARED / "circle"
FILES = sorted(FOLDER.glob("*.circle"))
pytestmark = pytest.mark.skipif(not FILES, reason="no shared/models/circle beside the repository")

VALID = {
    "neg_add_no_quant_params": "int16 that are plain numbers: LiteRT adds them, and wraps",
    "unsupported_type": "int16 that are plain numbers: LiteRT multiplies them, and wraps",
    "neg_no_quant_params_maxpool2d_kernel": "the largest of plain numbers, as LiteRT has it",
    "neg_gather_scale_mismatch": "a gather moves what is stored, whatever scale the file names for it, as in LiteRT",
    "neg_float": "NEG of floats, nothing is wrong with it",
    "neg_arg_max_axis_output_type_mismatch": "places of type int64, as the recipes ArgMax_* have too",
    "neg_arg_min_axis_output_type_mismatch": "places of type int64, as the recipes ArgMin_* have too",
    "neg_reshape_kernel": "a shape that is fed, which the format allows: only onert-micro wants a constant",
}
"""Models called neg_* that are right by the format's rules, and only beyond what onert-micro does."""

WRONG = {"s16_fully_connected": "its reference reads the first half of the int16 weights as if they were int8"}
"""Models whose reference is not what they say."""


def _parts(path: Path) -> tuple[str, str]:
    """(test class, model) of a file name."""
    test, _, model = path.stem.removeprefix("om__test_models__").rpartition("__")
    return test.rpartition("__")[2], model


def _refused(path: Path) -> bool:
    test, model = _parts(path)
    return (test.startswith("Neg") or model.startswith("neg_")) and model not in VALID


def _arrays(path: Path) -> dict[str, np.ndarray]:
    test, model = _parts(path)
    archive = FOLDER / f"{path.stem.rpartition('__')[0]}.npz"
    if not archive.exists():
        return {}
    with np.load(archive) as arrays:
        return {key.removeprefix(f"{model}."): arrays[key] for key in arrays.files if key.startswith(f"{model}.")}


def _ordered(arrays: dict[str, np.ndarray], kind: str, values: list) -> list[np.ndarray] | None:
    """The arrays called `kind`, in the order of their numbers, of the values' types."""
    names = sorted(k for k in arrays if k.startswith(kind))
    wide = [k for k in names if not k.endswith("_32")]
    if values and values[0].type.dtype == np.int32 and any(k.endswith("_32") for k in names):
        wide = [k for k in names if k.endswith("_32")]
    if len(wide) != len(values):
        return None
    return [arrays[k] for k in wide]


@pytest.mark.parametrize("path", [p for p in FILES if _refused(p)], ids=lambda p: p.stem.partition("models__")[2])
def test_an_invalid_model_is_refused(path: Path) -> None:
    with pytest.raises(FastgraphError, match="."):
        opened(path)


@pytest.mark.parametrize("path", [p for p in FILES if not _refused(p)], ids=lambda p: p.stem.partition("models__")[2])
def test_a_valid_model_gives_its_reference(path: Path) -> None:
    graph = opened(path)
    arrays = _arrays(path)
    inputs = _ordered(arrays, "input", graph.inputs)
    wanted = _ordered(arrays, "reference_output_data", graph.outputs)
    if inputs is None or wanted is None or _parts(path)[1] in WRONG:
        _runs(graph)
        return
    fed = [x.reshape(v.type.dims).astype(v.type.dtype) for v, x in zip(graph.inputs, inputs, strict=True)]
    for value, found, expected in zip(graph.outputs, by_references(graph, fed), wanted, strict=True):
        compare(path.stem, value, found.reshape(-1), expected.astype(found.dtype), relative=1e-4)


def _runs(graph: Graph) -> None:
    rng = np.random.default_rng(1)
    fed = [rng.integers(1, 5, v.type.dims).astype(v.type.dtype) for v in graph.inputs]
    if any(v.name == "shape" for v in graph.inputs):
        fed[1] = np.array([1, 10], np.int32)
    assert all(found is not None for found in by_references(graph, fed))
