"""The reduce kernel against NumPy in f64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from tests.kernels.harness import each_tier, f32_bits, run
from tests.kernels.walking import walk_of

ROW = row("reduce")


def log_sum_exp(x: np.ndarray, axis: int) -> np.ndarray:
    return np.logaddexp.reduce(x, axis=axis)


MEANING = {
    "sum": np.sum,
    "mean": np.mean,
    "sum_square": lambda x, axis: np.sum(x * x, axis),
    "sum_abs": lambda x, axis: np.sum(np.abs(x), axis),
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "log_sum_exp": log_sum_exp,
}
each_op = pytest.mark.parametrize("op", MEANING)


def rows_of(x: np.ndarray, op: str, tier: object, threads: int = 1, chain: tuple = ()) -> np.ndarray:
    """The kernel over the last axis of [outer, n]."""
    return reduced(x[:, :, None], op, tier, threads, chain)[:, 0]


def columns_of(x: np.ndarray, op: str, tier: object, threads: int = 1, chain: tuple = ()) -> np.ndarray:
    """The kernel over the middle axis of [outer, n, inner]."""
    return reduced(x, op, tier, threads, chain, 36)


def reduced(x: np.ndarray, op: str, tier: object, threads: int, chain: tuple = (), offset: int = 4) -> np.ndarray:
    outer, n, inner = x.shape
    divisor, kind = f32_bits(n if op == "mean" else 1), x.dtype.kind
    args = ROW.args.filled(
        y=np.full((outer, inner), 7, x.dtype), x=x, outer=outer, n=n, inner=inner,
        signed=kind == "i", divisor=divisor, **walk_of(chain, tier),
    )  # fmt: skip
    params = {"element": f"{'f' if kind == 'f' else 'i'}{8 * x.itemsize}", "op": op.replace("mean", "sum")}
    return run(ROW, params, args, tier, threads, offset)[0]


def values(*shape: int) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) + 0.5).astype(np.float32)


def close(got: np.ndarray, x: np.ndarray, axis: int, op: str) -> bool:
    """Whether the error is a few ulps of what a sum of absolute values would be."""
    x = x.astype(float)
    want = MEANING[op](x, axis)
    size = np.abs(want) if op in ("prod", "max", "min") else MEANING["sum_abs"](x, axis) + np.abs(want)
    size = size / x.shape[axis] if op == "mean" else size
    return bool((np.abs(got - want) <= 1e-6 * size + 1e-37).all())


@each_tier
@each_op
@settings(max_examples=12, deadline=None)
@given(outer=st.integers(1, 9), n=st.integers(1, 2 * 4 * 16 + 1))
def test_last_axis(tier, op, outer, n):
    x = values(outer, n)
    got = [rows_of(x, op, tier, threads) for threads in (1, 2, 3)]
    assert close(got[0], x, 1, op)
    assert np.array_equal(got[0], got[1]) and np.array_equal(got[0], got[2])


@each_tier
@each_op
@settings(max_examples=12, deadline=None)
@given(outer=st.integers(1, 9), n=st.integers(1, 20), inner=st.integers(1, 140))
def test_inner_axis(tier, op, outer, n, inner):
    x = values(outer, n, inner)
    got = [columns_of(x, op, tier, threads) for threads in (1, 2, 3)]
    assert close(got[0], x, 1, op)
    assert np.array_equal(got[0], got[1]) and np.array_equal(got[0], got[2])


@each_tier
@each_op
def test_extremes_are_numpys(op, tier):
    x = values(6, 70)
    x[0, 3] = np.nan
    x[1, 65] = np.inf
    x[2] = -np.inf
    x[3, 69] = np.nan
    x[4, ::2] = -np.inf
    with np.errstate(all="ignore"):
        want = MEANING[op](x.astype(float), 1)
    for got in (rows_of(x, op, tier), columns_of(x[:, :, None].repeat(3, 2), op, tier)[:, 1]):
        assert np.allclose(got, want, rtol=1e-5, equal_nan=True)


@each_tier
def test_of_nothing(tier):
    x = np.zeros((2, 0), np.float32)
    empty = {op: rows_of(x, op, tier)[0] for op in MEANING}
    assert np.isnan(empty.pop("mean"))
    assert empty == {
        "sum": 0,
        "sum_square": 0,
        "sum_abs": 0,
        "prod": 1,
        "max": -np.inf,
        "min": np.inf,
        "log_sum_exp": -np.inf,
    }


@each_tier
def test_a_chain_ends_it(tier):
    x, chain = values(3, 40), (("sqrt", 0), ("mul", 1, 2.0))
    want = 2 * np.linalg.norm(x, axis=1)
    assert np.allclose(rows_of(x, "sum_square", tier, chain=chain), want, rtol=1e-6)
    assert np.allclose(columns_of(x[:, :, None], "sum_square", tier, chain=chain)[:, 0], want, rtol=1e-6)


@each_tier
@pytest.mark.parametrize("element", ["u1", "i1", "i4", "u4", "i8", "u8", "f8"])
@settings(max_examples=12, deadline=None)
@given(outer=st.integers(1, 9), n=st.integers(1, 2 * 4 * 16 + 1), inner=st.sampled_from([1, 1, 3, 140]))
def test_other_elements(tier, element, outer, n, inner):
    """Whole numbers as NumPy has them, f64 as exact as its sums."""
    dtype, size = np.dtype(element), outer * n * inner
    bits = np.random.default_rng(n).integers(0, 256, size * dtype.itemsize).astype(np.uint8)
    x = (bits.view(dtype) if dtype.kind != "f" else values(size).astype(dtype)).reshape(outer, n, inner)
    for op in ("max", "min") if dtype.itemsize == 1 else ("max", "min", "sum", "prod"):
        want = getattr(np, op)(x, 1, **({"dtype": dtype} if op in ("sum", "prod") else {}))
        got = [reduced(x, op, tier, threads) for threads in (1, 2, 3)]
        assert np.allclose(got[0], want, rtol=1e-13, atol=1e-13) if dtype.kind == "f" else np.array_equal(got[0], want)
        assert np.array_equal(got[0], got[1]) and np.array_equal(got[0], got[2])
