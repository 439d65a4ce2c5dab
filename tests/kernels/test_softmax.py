"""The softmax kernel against NumPy in f64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from tests.kernels.harness import each_tier, run

ROW = row("softmax")


def meaning(x: np.ndarray, axis: int, log: bool) -> np.ndarray:
    """In f64, but for the shift: an f32 difference is what every softmax in f32 begins with."""
    with np.errstate(all="ignore"):
        x = (x - x.max(axis, keepdims=True)).astype(float)
        e = np.exp(x)
        total = e.sum(axis, keepdims=True)
        return x - np.log(total) if log else e / total


def rows_of(x: np.ndarray, log: bool, tier: object, threads: int = 1, offset: int = 4) -> np.ndarray:
    """The kernel over the last axis of [outer, n]."""
    return softmax(x[:, :, None], log, tier, threads, offset)[..., 0]


def softmax(x: np.ndarray, log: bool, tier: object, threads: int = 1, offset: int = 4) -> np.ndarray:
    """The kernel over the middle axis of [outer, n, inner]."""
    outer, n, inner = x.shape
    args = ROW.args.filled(y=np.full(x.shape, 7, np.float32), x=x, outer=outer, n=n, inner=inner)
    return run(ROW, {"log": log}, args, tier, threads, offset)[0]


def values(*shape: int, scale: float = 5) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype(np.float32)


@each_tier
@pytest.mark.parametrize("log", [False, True])
@settings(max_examples=40, deadline=None)
@given(
    outer=st.integers(1, 50),
    n=st.integers(1, 12) | st.integers(1, 2 * 4 * 16 + 1),
    offset=st.sampled_from([0, 4, 36]),
    scale=st.sampled_from([0.1, 5.0, 100.0]),
)
def test_last_axis(tier, log, outer, n, offset, scale):
    x = values(outer, n, scale=scale)
    got = [rows_of(x, log, tier, threads, offset) for threads in (1, 2, 3)]
    assert np.allclose(got[0], meaning(x, 1, log), rtol=5e-7, atol=2e-6 if log else 1e-30)
    assert np.array_equal(got[0], got[1]) and np.array_equal(got[0], got[2])


@each_tier
@pytest.mark.parametrize("log", [False, True])
@settings(max_examples=15, deadline=None)
@given(outer=st.integers(1, 9), n=st.integers(1, 20), inner=st.integers(1, 140))
def test_inner_axis(tier, log, outer, n, inner):
    x = values(outer, n, inner)
    got = [softmax(x, log, tier, threads) for threads in (1, 2, 3)]
    assert np.allclose(got[0], meaning(x, 1, log), rtol=7e-7, atol=2e-6 if log else 1e-30)
    assert np.array_equal(got[0], got[1]) and np.array_equal(got[0], got[2])


@each_tier
@pytest.mark.parametrize("log", [False, True])
def test_extremes_are_numpys(log, tier):
    x = values(7, 70)
    x[0, 3] = np.nan
    x[1, 65] = np.inf
    x[2] = -np.inf
    x[3, 10:] = -np.inf
    x[4] = 3e38
    x[5] = -3e38
    x[6, 1] = 300
    want = meaning(x, 1, log)
    for got in (rows_of(x, log, tier), softmax(x[:, :, None].repeat(3, 2), log, tier)[..., 1]):
        assert np.array_equal(np.isnan(got), np.isnan(want))
        assert np.allclose(got, want, rtol=5e-7, atol=2e-6, equal_nan=True)
        assert log or (got[3, 10:] == 0).all()


@each_tier
def test_in_place(tier):
    x = values(5, 70)
    got = run(ROW, {"log": False}, ROW.args.filled(y=x, x=x, outer=5, n=70, inner=1), tier)[0]
    assert np.allclose(got, meaning(x, 1, False), rtol=5e-7)
