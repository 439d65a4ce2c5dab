"""Weights as bf16: which of its two neighbors a number becomes, and what stays."""

import numpy as np
import pytest

from fastgraph.kernels.amx.pack_real import widened
from fastgraph.kernels.gemm import pack_bf16
from fastgraph.kernels.gemm.pack_bf16 import balanced, rounded


@pytest.mark.parametrize("shape", [(5, 3, 3, 7), (70, 2, 1), (33, 400), (3, 1, 1, 1, 129), (2, 0), (0, 3)])
def test_sums_stay(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(sum(shape))
    weights = (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 9, shape)).astype(np.float32)
    weights[weights > 2**8] = 0
    weights[::3] = widened(rounded(weights[::3]))
    made = balanced(weights)
    np.testing.assert_array_equal(made, widened(rounded(made)))
    np.testing.assert_array_equal(made[::3], weights[::3])
    units = (weights.view(np.uint32) & 0x7F800000).view(np.float32) * 2.0**-7
    assert np.all(np.abs(made - weights) <= 0.75 * units)
    axis = tuple(range(1, len(shape) - 1)) if np.prod(shape[1:-1]) > 1 else -1

    def lost(found: np.ndarray) -> float:
        return float(np.square((found - weights.astype(float)).sum(axis)).sum())

    assert lost(made) <= lost(widened(rounded(weights)))
    monkeypatch.setattr(pack_bf16, "PART", 50)
    np.testing.assert_array_equal(balanced(weights), made)


@pytest.mark.parametrize("odd", [np.inf, np.nan, -3.4e38])
def test_what_has_no_sum_is_left_to_rounding(odd: float) -> None:
    weights = np.float32([[1.001, odd], [2, 3.003]])
    np.testing.assert_array_equal(balanced(weights), weights)
