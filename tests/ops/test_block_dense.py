"""block_dense: what it makes of types that make no sense, and its weights against a loop over codes."""

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.ir import Graph, Node, TensorType, Value
from fastgraph.ops.block_dense import block_weights
from fastgraph.ops.evaluate import infer_graph

F32 = np.dtype(np.float32)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [True, False])
def test_weights(bits: int, zeros: bool) -> None:
    rng, n, k, block = np.random.default_rng(bits), 3, 40, 16
    codes = rng.integers(0, 256, (n, 3, block * bits // 8)).astype(np.uint8)
    scales, points = rng.uniform(0.1, 1, (n, 3)).astype(F32), rng.uniform(0, 3, (n, 3)).astype(F32)
    found = block_weights(codes, scales, points if zeros else None, bits, k)
    assert found.shape == (n, k)
    for row in range(n):
        for column in range(k):
            at, place = column // block, column % block * bits
            code = codes[row, at, place // 8] >> (place % 8) & ((1 << bits) - 1)
            zero = points[row, at] if zeros else 1 << (bits - 1)
            assert np.isclose(found[row, column], (float(code) - zero) * scales[row, at], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("change", [
    {"bits": 3}, {"block": 64}, {"x": TensorType(np.dtype(np.float16), (2, 64))}, {"x": TensorType(F32, (2, 90))},
    {"zeros": np.zeros((5, 3), F32)}, {"codes": np.zeros((5, 2, 16), np.int8)},
])  # fmt: skip
def test_what_makes_no_sense(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "x": TensorType(F32, (2, 64)), "codes": np.zeros((5, 2, 16), np.uint8), "scales": np.ones((5, 2), F32),
        "zeros": np.zeros((5, 2), F32), "bits": 4, "block": 32, **change,
    }  # fmt: skip
    x, y = Value("x", given["x"]), Value("y", TensorType(None))
    constants = [Value.constant(name, given[name]) for name in ("codes", "scales", "zeros")]
    node = Node("block_dense", [x, *constants], [y], {"bits": given["bits"], "block": given["block"]})
    with pytest.raises(fg.ModelError, match="block_dense"):
        infer_graph(Graph("g", [x], [y], [node]))
