"""Strided copies against NumPy: slices, broadcasts, tiles, parts of larger buffers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.isa import tiers
from fastgraph.kernels.move.copy_plan import collapse, copied, dense, expanded, sliced, tiled
from tests.kernels.harness import each_tier
from tests.kernels.moving import numbered, perform

TYPES = [np.uint8, np.uint16, np.float32, np.float64]


@st.composite
def slices(draw):
    """(x, index): a small array and a slice per axis that picks at least one element."""
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)) + [draw(st.integers(1, 150))]
    x = numbered(tuple(shape), draw(st.sampled_from(TYPES)))
    index = []
    for n in shape:
        first, last = sorted((draw(st.integers(0, n - 1)), draw(st.integers(0, n - 1))))
        step = draw(st.sampled_from([1, 1, 2, 3, 4, 5]))
        back = draw(st.booleans()) and draw(st.booleans())
        index.append((last, -step, 1 + (last - first) // step) if back else (first, step, 1 + (last - first) // step))
    return x, index


@given(slices(), st.sampled_from(tiers.usable()), st.integers(1, 3), st.integers(0, 9))
@settings(max_examples=120, deadline=None)
def test_slices(case, tier, threads, offset):
    x, index = case
    starts, steps, out = zip(*index, strict=True)
    expected = x
    for axis, (start, step, count) in enumerate(index):
        expected = np.take(expected, start + step * np.arange(count), axis)
    y = perform(sliced(x.shape, starts, steps, out, x.itemsize), x, out, tier, threads, offset)
    np.testing.assert_array_equal(y, expected)


@given(st.data(), st.sampled_from(tiers.usable()), st.sampled_from(TYPES))
@settings(max_examples=60, deadline=None)
def test_expand_and_tile(data, tier, dtype):
    out = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))) + (data.draw(st.integers(1, 90)),)
    shape = tuple(n if data.draw(st.booleans()) else 1 for n in out)
    shape = shape[data.draw(st.integers(0, len(shape) - 1)) :]
    x = numbered(shape, dtype)
    np.testing.assert_array_equal(perform(expanded(shape, out, x.itemsize), x, out, tier, 2), np.broadcast_to(x, out))
    repeats = [data.draw(st.integers(1, 3)) for _ in shape]
    expected = np.tile(x, repeats)
    np.testing.assert_array_equal(perform(tiled(shape, repeats, x.itemsize), x, expected.shape, tier, 2), expected)


@each_tier
@pytest.mark.parametrize("count", [*range(1, 34), 63, 64, 65, 127, 128, 129, 1000])
def test_runs_of_every_length_touch_nothing_else(tier, count):
    x = numbered((3, count), np.uint8)
    y = perform(copied((3, count), dense((3, count), 1), (count + 5, 1), 1), x, (3, count + 5), tier, offset=3)
    np.testing.assert_array_equal(y[:, :count], x)
    assert (y[:, count:] == 0).all()


@each_tier
@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.complex128])
def test_other_element_sizes(tier, dtype):
    x = numbered((3, 40), dtype)
    stepped = sliced(x.shape, (2, 39), (-1, -3), (3, 14), x.itemsize)
    np.testing.assert_array_equal(perform(stepped, x, (3, 14), tier), x[::-1, ::-3])
    if x.itemsize <= 8:
        wide = expanded((3, 1), (3, 21), x.itemsize)
        np.testing.assert_array_equal(perform(wide, x[:, :1].copy(), (3, 21), tier), np.repeat(x[:, :1], 21, 1))


@each_tier
def test_concat_part_goes_into_columns_of_a_wider_buffer(tier):
    x = numbered((4, 5, 7), np.float32)
    wide = dense((4, 5, 20), 4)
    y = perform(copied(x.shape, dense(x.shape, 4), wide, 4, dst_offset=9 * 4), x, (4, 5, 20), tier)
    np.testing.assert_array_equal(y[..., 9:16], x)
    assert (np.delete(y, range(9, 16), axis=-1) == 0).all()


@each_tier
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_one_long_run_is_shared_out(tier, threads):
    x = numbered((5003,), np.float32)
    np.testing.assert_array_equal(perform(copied(x.shape, (4,), (4,), 4), x, x.shape, tier, threads), x)


def test_nothing_to_copy_writes_nothing():
    x = np.zeros((3, 0, 4), np.float32)
    plan = copied(x.shape, dense(x.shape, 4), dense(x.shape, 4), 4)
    assert perform(plan, np.ones(1, np.float32), (1,), tiers.usable()[-1])[0] == 0


def test_collapse_merges_what_is_contiguous_on_both_sides():
    assert len(collapse((2, 3, 4, 5), dense((2, 3, 4, 5), 4), dense((2, 3, 4, 5), 4))) == 1
    assert len(collapse((2, 3, 4), dense((2, 3, 4), 4), dense((2, 3, 9), 4))) == 2
    assert collapse((1, 1), (4, 4), (4, 4)) == []


def test_too_many_loops_are_refused():
    shape, src = (2,) * 9, [4 * 3**i for i in range(9)]
    with pytest.raises(ValueError, match="loops"):
        copied(shape, src, dense(shape, 4), 4)
