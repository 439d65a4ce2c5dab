"""Gathers and offset tables against numpy.take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.isa import tiers
from fastgraph.kernels.move.take_plan import gathered, taken
from tests.kernels.harness import each_tier
from tests.kernels.moving import numbered, perform


def gather(x, index, axis, tier, threads=1, offset=0):
    """(result, error cell) of the kernel."""
    error = np.zeros(1, np.int64)
    plan = gathered(x.shape, axis, index.size, x.itemsize, index.itemsize)
    out = (*x.shape[:axis], index.size, *x.shape[axis + 1 :])
    return perform(plan, x, out, tier, threads, offset, index=index, error=error), error[0]


@given(st.data(), st.sampled_from(tiers.usable()), st.sampled_from([np.int32, np.int64]))
@settings(max_examples=80, deadline=None)
def test_gather(data, tier, kind):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))) + (
        data.draw(st.sampled_from([1, 37])),
    )
    axis = data.draw(st.integers(0, len(shape) - 1))
    n = shape[axis]
    index = np.array(data.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=20)), kind)
    x = numbered(shape, np.float32)
    y, error = gather(x, index, axis, tier, data.draw(st.integers(1, 3)))
    np.testing.assert_array_equal(y, np.take(x, index, axis))
    assert error == 0


@each_tier
@pytest.mark.parametrize("bad", [5, -6, 2**31 - 1, -(2**31), 2**62, -(2**62)])
def test_an_index_out_of_range_is_clamped_and_reported(tier, bad):
    x = numbered((5, 3), np.float32)
    index = np.array([1, bad, -1], np.int64)
    y, error = gather(x, index, 0, tier)
    np.testing.assert_array_equal(y, x[[1, 4 if bad > 0 else 0, 4]])
    assert error == 1


def test_an_empty_axis_is_never_read():
    y, error = gather(np.zeros((2, 0, 3), np.float32), np.array([0], np.int64), 1, tiers.usable()[-1])
    assert error == 1 and (y == 0).all()


@given(st.data(), st.sampled_from(tiers.usable()), st.sampled_from([np.uint8, np.float32]))
@settings(max_examples=60, deadline=None)
def test_tables_for_any_axes(data, tier, dtype):
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    x = numbered(shape, dtype)
    places, expected = [], x
    for axis, n in enumerate(shape):
        at = data.draw(st.none() | st.lists(st.integers(-1, n - 1), min_size=1, max_size=9).map(np.array))
        places.append(at)
        if at is not None:
            expected = np.take(expected, np.maximum(at, 0), axis)
            expected = np.where((at < 0).reshape((-1,) + (1,) * (len(shape) - axis - 1)), dtype(9), expected)
    fill = int.from_bytes(dtype(9).tobytes(), "little")
    y = perform(taken(shape, places, x.itemsize, fill), x, expected.shape, tier, 2)
    np.testing.assert_array_equal(y, expected)


@each_tier
@pytest.mark.parametrize("shape, axes", [((3, 20, 21), (1, 2)), ((1, 6, 5, 8), (1, 2)), ((30,), (0,))])
def test_nearest_upscaling_by_whole_factors(tier, shape, axes):
    x = numbered(shape, np.float32)
    places = [np.repeat(np.arange(n), 2) if a in axes else None for a, n in enumerate(shape)]
    expected = x
    for axis in axes:
        expected = np.repeat(expected, 2, axis)
    np.testing.assert_array_equal(perform(taken(shape, places, 4), x, expected.shape, tier, 2), expected)


def test_an_empty_table_takes_nothing():
    plan = taken((3, 4), [np.zeros(0, np.int64), None], 4)
    assert perform(plan, np.ones((3, 4), np.float32), (1,), tiers.usable()[-1])[0] == 0


def test_neighbors_in_a_table_move_together():
    plan = taken((50,), [np.array([2, 1, *range(50), 48, 47])], 4)
    assert plan.args["table"].tolist() == [[0, 8, 4], [4, 4, 4], [8, 0, 200], [208, 192, 4], [212, 188, 4]]
