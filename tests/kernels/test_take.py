"""Offset tables against numpy.take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.isa import tiers
from fastgraph.kernels.move.take_plan import taken
from tests.kernels.harness import each_tier
from tests.kernels.moving import numbered, perform


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
