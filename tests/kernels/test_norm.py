"""The kernel that normalizes rows against NumPy in f64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from tests.kernels.harness import each_tier, f32_bits, run

ROW = row("norm")


def found(
    x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None, centered: bool, tier: object, threads: int, gap: int = 0
) -> np.ndarray:
    rows, n = x.shape
    wide = np.full((rows, n + gap), 7, np.float32)
    wide[:, :n] = x
    args = ROW.args.filled(
        y=np.full_like(wide, 5), x=wide, scale=scale, bias=0 if bias is None else bias, rows=rows, n=n,
        y_row=4 * (n + gap), x_row=4 * (n + gap), inverse=f32_bits(1 / n), epsilon=f32_bits(1e-3), centered=centered,
    )  # fmt: skip
    y = run(ROW, {}, args, tier, threads)[0]
    assert (y[:, n:] == 5).all()
    return y[:, :n]


def meaning(x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None, centered: bool) -> np.ndarray:
    wide = x.astype(float)
    wide = wide - wide.mean(1, keepdims=True) if centered else wide
    y = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-3) * scale
    return y if bias is None else y + bias


@each_tier
@pytest.mark.parametrize("centered", [False, True])
@settings(max_examples=25, deadline=None)
@given(rows=st.integers(1, 9), n=st.integers(1, 150), biased=st.booleans(), gap=st.integers(0, 3))
def test_rows(tier, centered, rows, n, biased, gap):
    rng = np.random.default_rng(rows + n)
    x = (rng.standard_normal((rows, n)) * 3 + 1).astype(np.float32)
    scale, bias = rng.standard_normal((2, n)).astype(np.float32)
    bias = bias if biased else None
    y = [found(x, scale, bias, centered, tier, threads, gap) for threads in (1, 2, 3)]
    assert np.allclose(y[0], meaning(x, scale, bias, centered), atol=2e-5)
    assert all(np.array_equal(y[0], other) for other in y[1:])


@each_tier
def test_a_row_that_has_a_nan_is_nan_and_no_other(tier):
    x = np.ones((3, 70), np.float32)
    x[1, 66] = np.nan
    y = found(x, x[0], x[0], True, tier, 1)
    assert np.isnan(y[1]).all() and np.isfinite(y[[0, 2]]).all()
