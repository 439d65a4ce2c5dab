"""The elementwise kernel against NumPy: broadcasting, strided rows, edges, in place, numbers of threads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.pointwise.chain import eval_chain
from fastgraph.kernels.pointwise.elementwise_shape import broadcast, collapse, loops, strides_of
from tests.kernels.harness import each_tier
from tests.kernels.walking import elementwise

RELU6 = (("add", 0, 1), ("clip", 2, 0.0, 6.0))
SWISH = (("swish", 0, 1.0),)


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * 4, np.float32)


def apply(chain: tuple, xs: list[np.ndarray], tier: object, threads: int = 1, offset: int = 4) -> np.ndarray:
    out = np.broadcast_shapes(*(x.shape for x in xs))
    plan = loops(out, strides_of(out), [broadcast(x.shape, strides_of(x.shape), out) for x in xs])
    assert plan is not None
    y = np.full(out, np.nan, np.float32)
    return elementwise(chain, plan, y, xs, tier, threads, offset)


@each_tier
@pytest.mark.parametrize(
    "shapes",
    [
        [(1,), (1,)],
        [(3, 5, 7), (7,)],
        [(3, 5, 7), (5, 1)],
        [(2, 3, 4, 5), (3, 1, 5)],
        [(300,), (1,)],
        [(4, 1, 6), (1, 5, 1)],
        [(2, 1, 3, 1, 5), (1, 4, 1, 7, 1)],
        [(2, 9, 70), (2, 1, 70)],
        [(0, 3), (3,)],
        [(), (4, 130)],
    ],
    ids=str,
)
def test_broadcasting_is_numpys(shapes, tier):
    xs = [values(*shape, seed=i) for i, shape in enumerate(shapes)]
    got = apply(RELU6, xs, tier)
    assert np.array_equal(got, eval_chain(RELU6, xs))
    for threads in (2, 3):
        assert np.array_equal(got, apply(RELU6, xs, tier, threads))


@each_tier
@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 9),
    cols=st.integers(1, 2 * 4 * 16 + 1),
    offset=st.sampled_from([0, 4, 20, 60]),
    threads=st.integers(1, 3),
    extra=st.integers(0, 3),
)
def test_any_size_at_any_address(tier, rows, cols, offset, threads, extra):
    x, z = values(rows, cols + extra), values(rows, cols, seed=1)
    y = np.full((rows, cols + extra), 7, np.float32)
    wide = strides_of((rows, cols), row=cols + extra)
    plan = loops((rows, cols), wide, [wide, strides_of((rows, cols))])
    got = elementwise(RELU6, plan, y, [x, z], tier, threads, offset)
    assert np.array_equal(got[:, :cols], eval_chain(RELU6, [x[:, :cols], z]))
    assert (got[:, cols:] == 7).all()


@each_tier
def test_in_place_and_the_same_bits_with_any_number_of_threads(tier):
    x = values(1, 1000)
    plan = loops(x.shape, strides_of(x.shape), [strides_of(x.shape)])
    results = [elementwise(SWISH, plan, x, [x], tier, threads) for threads in (1, 2, 3, 5)]
    assert np.allclose(results[0], eval_chain(SWISH, [x.astype(float)]), rtol=1e-6)
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_collapse_merges_what_is_walked_as_one():
    assert collapse((2, 3, 4), [(12, 4, 1), (12, 4, 1)]) == ((24,), [(1,), (1,)])
    assert collapse((2, 3, 4), [(12, 4, 1), (0, 0, 1)]) == ((6, 4), [(4, 1), (0, 1)])
    assert collapse((2, 3, 4), [(24, 8, 1), (12, 4, 1)]) == ((6, 4), [(8, 1), (4, 1)])
    assert collapse((1, 1), [(5, 1)]) == ((), [()])


def test_too_many_dimensions_are_refused():
    out = (2, 3, 2, 3, 2, 3)
    x = broadcast((1, 3, 1, 3, 1, 3), strides_of((1, 3, 1, 3, 1, 3)), out)
    assert loops(out, strides_of(out), [strides_of(out), x]) is None


def test_a_column_of_strided_rows_is_walked_by_rows():
    plan = loops((6, 1), (4, 1), [(1, 1)])
    assert plan.dims == (1, 1, 1, 6, 1) and plan.xs[0][-2:] == (1, 0)


def test_chains():
    assert eval_chain((), [np.float32([1, 2])]).tolist() == [1, 2]
    with pytest.raises(ValueError, match="clip takes 3 operands"):
        eval_chain((("clip", 0, 1.0),), [np.zeros(1, np.float32)])
