"""Rounding by range against its operator, to the bit, on every tier; products against their formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from fastgraph.kernels.gemm.pack_int8 import Head, pack_int8
from fastgraph.kernels.gemm.pick_dot import DotPiece, dot_args
from fastgraph.kernels.gemm.pick_dynamic import parts_of
from fastgraph.kernels.gemm.pick_int8 import INT8_COSTS
from fastgraph.kernels.gemm.rows import GRIDS, RANGE_BYTES
from fastgraph.ops import dynamic
from fastgraph.ops.dynamic import dynamic_rounded
from tests.kernels.harness import each_integer_tier, run
from tests.kernels.walking import Constants, ended

EXTREMES, ROUND, DOT = (row(name) for name in ("extremes", "dynamic_round", "dot_dynamic"))


def test_grids_are_numbered_as_the_operator_names_them() -> None:
    assert GRIDS == dynamic.GRIDS


def rounded(
    tier: Any, x: np.ndarray, grid: str, out: str, pads: tuple[int, int, int, int], parts: int, threads: int,
    per: str = "batch", whole: bool = False,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(what is stored, the ranges [images, 4] as f32) for x [images, rows, run]; pads: top, left, bottom, right."""
    images, rows, count = x.shape
    top, left, bottom, right = pads
    own, both = images if per == "batch" else 1, {"x": x, "parts": parts}
    extremes = np.zeros((own, parts, 2), np.float32)
    record = EXTREMES.args.filled(**both, images=own, count=x.size // own, extremes=extremes)
    extremes = run(EXTREMES, {}, record, tier, threads)[1]
    ranges = np.zeros((own, RANGE_BYTES // 4), np.float32)
    y = np.zeros((images, top + rows + bottom, left + count + right), np.uint8 if out == "u8" else np.float32)
    record = ROUND.args.filled(
        **both, extremes=extremes, ranges=ranges, y=y, rows=rows, run=count, top=top, left=left, bottom=bottom,
        right=right, grid=GRIDS.index(grid), images=images, per_image=int(per == "batch"), whole=int(whole),
    )  # fmt: skip
    _, _, ranges, y = run(ROUND, {"out": out}, record, tier, threads)
    return y, ranges


def draw(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    low = rng.choice([-3.0, 0.0, 0.5])
    return (rng.uniform(low, 2, shape) * rng.uniform(0.01, 9, (shape[0], 1, 1))).astype(np.float32)


@each_integer_tier
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 99), shape=st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 150)),
    grid=st.sampled_from(GRIDS), pads=st.tuples(*[st.integers(0, 20)] * 4), parts=st.integers(1, 3),
    threads=st.integers(1, 3), per=st.sampled_from(("batch", "tensor")),
)  # fmt: skip
def test_bytes_stand_for_the_rounded_numbers(
    tier: Any, seed: int, shape: Any, grid: str, pads: Any, parts: int, threads: int, per: str
) -> None:
    x = draw(seed, shape)
    expected = dynamic_rounded(x, per, grid)
    stored, ranges = rounded(tier, x, grid, "u8", pads, parts, threads, per)
    scale, minus_zero = ranges[:, 0, None, None], ranges.view(np.int32)[:, 1, None, None]
    found = (stored.astype(np.int32) + minus_zero).astype(np.float32) * scale
    top, left, _, _ = pads
    inner = found[:, top : top + shape[1], left : left + shape[2]]
    np.testing.assert_array_equal(inner, expected)
    found[:, top : top + shape[1], left : left + shape[2]] = 0
    assert not found.any(), "padding stands for 0.0"
    np.testing.assert_array_equal(rounded(tier, x, grid, "f32", (0,) * 4, parts, threads, per)[0], expected)
    whole, ranges = rounded(tier, x, grid, "f32", (0,) * 4, parts, threads, per, whole=True)
    np.testing.assert_array_equal(whole, np.rint(whole))
    np.testing.assert_array_equal(whole * ranges[:, 0, None, None], expected)


@each_integer_tier
@pytest.mark.parametrize("grid", GRIDS)
def test_zeros_stay_zeros_and_what_is_not_finite_spreads(tier: Any, grid: str) -> None:
    x = np.zeros((4, 2, 70), np.float32)
    x[1, 1, 69], x[2, 0, 3], x[3, 0, 0] = np.nan, np.inf, 5
    y, _ = rounded(tier, x, grid, "f32", (0,) * 4, 2, 1)
    assert not y[0].any() and np.isnan(y[1]).all() and np.isnan(y[2]).all()
    np.testing.assert_array_equal(y[3], dynamic_rounded(x[3:], "batch", grid)[0])


@each_integer_tier
@settings(max_examples=25, deadline=None)
@given(data=st.data(), per_row=st.booleans(), rowsum=st.booleans())
def test_products_are_exact_before_they_are_scaled(tier: Any, data: Any, per_row: bool, rowsum: bool) -> None:
    nv, per_row = 2, per_row and not rowsum
    height = data.draw(st.integers(1, INT8_COSTS[rowsum].most_rows(tier, nv)))
    m, n, k = data.draw(st.integers(1, 18)), data.draw(st.integers(1, 3 * tier.lanes)), data.draw(st.integers(1, 40))
    batch, threads = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    rng = np.random.default_rng(m * n + k)
    a = rng.integers(0, 256, (batch, m, k)).astype(np.uint8)
    weights = rng.integers(-128, 128, (1, n, k)).astype(np.int8)
    scales, bias = rng.uniform(0.001, 0.1, (1, n)).astype(np.float32), rng.normal(size=(1, n)).astype(np.float32)
    full = rng.normal(size=(batch, m, n)).astype(np.float32)
    ranges = np.zeros((batch, m if per_row else 1, RANGE_BYTES // 4), np.float32)
    ranges[..., 0] = rng.uniform(0.01, 1, ranges.shape[:2])
    ranges.view(np.int32)[..., 1] = -rng.integers(0, 256, ranges.shape[:2])
    zeros = rng.integers(-128, 128, (1, n)).astype(np.int32) * rowsum
    sums = weights.sum(axis=2, dtype=np.int32) - k * zeros
    packed = pack_int8(tier, weights, Head(sums, scales, -zeros if rowsum else None, bias), nv, k, "f32")
    params, constants = {"nv": nv, "per_row": per_row, "rowsum": rowsum}, Constants(tier)
    ending = ended(constants, (("add", 0, 1), ("relu", 2)), [full])
    args = dot_args(
        DotPiece(0, n, nv, params, height, 2, False), a=a, lda=k, b=packed, c=np.zeros((batch, m, n), np.float32),
        ldc=n, m=m, k=-(-k // 4), batch=batch, a_stride=m * k, c_stride=m * n, ranges=ranges,
        per_image=m if per_row else 1, per_row=int(per_row), **ending,
    )  # fmt: skip
    c = run(DOT, params, DOT.args.filled(**args), tier, threads)[2]
    zero = -ranges.view(np.int32)[..., 1, None].astype(np.int64)
    wide = weights[0].astype(np.int64) - zeros[0][:, None]
    acc = np.einsum("bmk,nk->bmn", a.astype(np.int64), wide) - zero * wide.sum(axis=1)
    wanted = acc * (ranges[..., :1].astype(np.float64) * scales) + bias + full
    np.testing.assert_allclose(c, np.maximum(wanted, 0), rtol=1e-6, atol=2e-6 * np.abs(wanted).max())


def test_threads_share_large_images_only() -> None:
    assert parts_of(1, 100, 8) == 1 and parts_of(1, 100_000, 8) == 8 and parts_of(8, 100_000, 8) == 1
