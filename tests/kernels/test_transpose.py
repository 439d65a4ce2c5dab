"""Permutations against numpy.transpose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.isa import tiers
from fastgraph.kernels.move.copy_plan import copied, dense, transposed
from tests.kernels.harness import each_tier
from tests.kernels.moving import numbered, perform


@given(st.data(), st.sampled_from(tiers.usable()), st.integers(1, 3), st.integers(0, 5))
@settings(max_examples=120, deadline=None)
def test_any_permutation(data, tier, threads, offset):
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=5)))
    grown = data.draw(st.integers(0, len(shape) - 1))
    shape = (*shape[:grown], data.draw(st.sampled_from([2, 3, 9, 17, 33])), *shape[grown + 1 :])
    perm = data.draw(st.permutations(range(len(shape))))
    x = numbered(shape, np.float32)
    expected = x.transpose(perm)
    plan = transposed(shape, perm, 4)
    np.testing.assert_array_equal(perform(plan, x, expected.shape, tier, threads, offset), expected)


@each_tier
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.complex128])
@pytest.mark.parametrize("rows, cols", [(16, 16), (64, 37), (37, 64), (5, 50), (50, 12), (5, 6), (70, 530)])
def test_tiles_and_their_edges(tier, dtype, rows, cols):
    x = numbered((2, rows, cols), dtype)
    plan = transposed(x.shape, (0, 2, 1), x.itemsize)
    np.testing.assert_array_equal(perform(plan, x, (2, cols, rows), tier, 2, 1), x.transpose(0, 2, 1))


@each_tier
@pytest.mark.parametrize(
    "dtype, k", [(np.float32, k) for k in range(2, 9)] + [(np.uint8, 3), (np.uint8, 7), (np.int16, 5), (np.int64, 2)]
)
@pytest.mark.parametrize("n", [16, 58, 4099])
def test_interleave_and_deinterleave(tier, dtype, k, n):
    lines = numbered((2, k, n), dtype)
    mixed = np.ascontiguousarray(lines.transpose(0, 2, 1))
    size = lines.itemsize
    forth, back = transposed(lines.shape, (0, 2, 1), size), transposed(mixed.shape, (0, 2, 1), size)
    assert (forth.args["few"], back.args["few"]) == (k, -k)
    assert (forth.params, back.params) == tuple({"itemsize": size, "narrow": narrow} for narrow in (1, -1))
    np.testing.assert_array_equal(perform(forth, lines, mixed.shape, tier, 3, 2), mixed)
    np.testing.assert_array_equal(perform(back, mixed, lines.shape, tier, 3, 2), lines)


@each_tier
def test_between_strided_buffers(tier):
    """Rows of both sides have neighbors that stay as they are."""
    x = numbered((20, 30), np.float32)
    plan = copied((19, 18), (4, 30 * 4), (25 * 4, 4), 4, dst_offset=8)
    y = perform(plan, x, (20, 25), tier, 2)
    np.testing.assert_array_equal(y[:19, 2:20], x[:18, :19].T)
    y[:19, 2:20] = 0
    assert (y == 0).all()


@pytest.mark.parametrize(
    "shape, perm, kernel",
    [
        ((1, 128, 12, 64), (0, 2, 1, 3), "copy"),
        ((28, 28, 2, 2, 16), (0, 2, 1, 3, 4), "copy"),
        ((1, 4, 2, 2, 17, 17), (0, 1, 4, 2, 5, 3), "transpose"),
        ((1, 3, 224, 224), (0, 2, 3, 1), "transpose"),
        ((6, 1, 5), (2, 1, 0), "transpose"),
    ],
)
def test_which_kernel_does_it(shape, perm, kernel):
    plan = transposed(shape, perm, 4)
    assert plan.kernel == kernel
    x = numbered(shape, np.float32)
    expected = x.transpose(perm)
    np.testing.assert_array_equal(perform(plan, x, expected.shape, tiers.usable()[-1]), expected)


def test_a_short_contiguous_end_moves_as_one_element():
    assert transposed((40, 30, 2), (1, 0, 2), 4).params == {"itemsize": 8, "narrow": 0}
    assert dense((40, 30, 2), 4) == (240, 8, 4)
