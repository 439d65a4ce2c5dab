"""The softmax kernel against NumPy in f64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.pointwise.rows import ROWS
from tests.kernels.harness import each_tier, run

ROW = next(row for row in ROWS if row.name == "softmax")


def meaning(x: np.ndarray, axis: int, log: bool) -> np.ndarray:
    """In f64, but for the shift: an f32 difference is what every softmax in f32 begins with."""
    with np.errstate(all="ignore"):
        x = (x - x.max(axis, keepdims=True)).astype(float)
        e = np.exp(x)
        total = e.sum(axis, keepdims=True)
        return x - np.log(total) if log else e / total


def rows_of(
    x: np.ndarray, log: bool, tier: object, pad: int = 0, threads: int = 1, offset: int = 4
) -> np.ndarray:
    """The kernel over the last axis of [outer, n], with `pad` elements after each row of y."""
    outer, n = x.shape
    y = np.full((outer, n + pad), 7, np.float32)
    record = [y, x, outer, n, 1, n + pad, 1, n, 1]
    y = run(ROW, {"log": log, "last": True}, record, tier, threads, offset)[0]
    assert (y[:, n:] == 7).all()
    return y[:, :n]


def columns_of(x: np.ndarray, log: bool, tier: object, pad: int = 0, threads: int = 1) -> np.ndarray:
    """The kernel over the middle axis of [outer, n, inner]."""
    outer, n, inner = x.shape
    y = np.full((outer, n, inner + pad), 7, np.float32)
    record = [y, x, outer, n, inner, n * (inner + pad), inner + pad, n * inner, inner]
    y = run(ROW, {"log": log, "last": False}, record, tier, threads)[0]
    assert (y[..., inner:] == 7).all()
    return y[..., :inner]


def values(*shape: int, scale: float = 5) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype(np.float32)


@each_tier
@pytest.mark.parametrize("log", [False, True])
@settings(max_examples=20, deadline=None)
@given(outer=st.integers(1, 9), n=st.integers(1, 2 * 4 * 16 + 1), pad=st.integers(0, 3),
       offset=st.sampled_from([0, 4, 36]), scale=st.sampled_from([0.1, 5.0, 100.0]))
def test_last_axis(tier, log, outer, n, pad, offset, scale):
    x = values(outer, n, scale=scale)
    got = [rows_of(x, log, tier, pad, threads, offset) for threads in (1, 2, 3)]
    assert np.allclose(got[0], meaning(x, 1, log), rtol=5e-7, atol=2e-6 if log else 1e-30)
    assert np.array_equal(got[0], got[1]) and np.array_equal(got[0], got[2])


@each_tier
@pytest.mark.parametrize("log", [False, True])
@settings(max_examples=15, deadline=None)
@given(outer=st.integers(1, 9), n=st.integers(1, 20), inner=st.integers(1, 140), pad=st.integers(0, 3))
def test_inner_axis(tier, log, outer, n, inner, pad):
    x = values(outer, n, inner)
    got = [columns_of(x, log, tier, pad, threads) for threads in (1, 2, 3)]
    assert np.allclose(got[0], meaning(x, 1, log), rtol=5e-7, atol=2e-6 if log else 1e-30)
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
    for got in (rows_of(x, log, tier), columns_of(x[:, :, None].repeat(3, 2), log, tier)[..., 1]):
        assert np.array_equal(np.isnan(got), np.isnan(want))
        assert np.allclose(got, want, rtol=5e-7, atol=2e-6, equal_nan=True)
        assert log or (got[3, 10:] == 0).all()


@each_tier
def test_in_place(tier):
    x = values(5, 70)
    got = run(ROW, {"log": False, "last": True}, [x, x, 5, 70, 1, 70, 1, 70, 1], tier)[0]
    assert np.allclose(got, meaning(x, 1, False), rtol=5e-7)
