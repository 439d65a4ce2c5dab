"""Model files of others that tests read where they lie, beside the repository, and how results are compared."""

from pathlib import Path
from typing import Any

import numpy as np

from fastgraph.frontends.circle import read
from fastgraph.ir import Graph, Value
from fastgraph.ops.evaluate import evaluate

SHARED = Path(__file__).resolve().parents[3] / "shared" / "models"


def by_references(graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a graph that takes these inputs, in its order, by the operators' NumPy references."""
    return evaluate(graph, {v.name: x for v, x in zip(graph.inputs, inputs, strict=True)})


def opened(path: Path) -> Graph:
    return read(str(path))


def compare(name: str, value: Value | Any, found: np.ndarray, wanted: np.ndarray, relative: float = 1e-5) -> None:
    """Floats within `relative` (and 1e-6 of the largest), quantized numbers within a step, others exactly."""
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, (
        f"{name}: {found.dtype}{found.shape}, expected {wanted.dtype}{wanted.shape}"
    )
    if wanted.dtype.kind == "f":
        finite = wanted[np.isfinite(wanted)]
        close = 1e-6 * float(np.abs(finite).max(initial=0))
        np.testing.assert_allclose(found, wanted, rtol=relative, atol=close, err_msg=name)
    elif value.type.quant is not None:
        steps = np.abs(found.astype(np.int64) - wanted.astype(np.int64)).max(initial=0)
        assert steps <= 1, f"{name}: {steps} steps off"
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=name)
