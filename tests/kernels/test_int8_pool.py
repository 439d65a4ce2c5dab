"""Pools of bytes against the sums and maxima they stand for, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.core.table import row
from fastgraph.kernels.window.pick import Window
from fastgraph.kernels.window.pick_pool_int8 import plan_pool_int8, pool_int8_args
from tests.kernels.harness import each_integer_tier, run
from tests.kernels.windows import Case, cases, counted, padded_taps


def check(tier: Any, case: Case, op: str, include_pad: bool = False) -> None:
    g, rng = case.window, np.random.default_rng(case.seed)
    x = rng.integers(0, 256, (g.images, *g.size, g.channels)).astype(np.uint8)
    zero_x, zero_y = (int(z) for z in rng.integers(0, 256, 2))
    low, high = (int(z) for z in sorted(rng.integers(0, 256, 2)))
    ratio = float(rng.uniform(0.5, 2))
    total = np.zeros((g.images, *g.out, g.channels))
    best, count = np.zeros(total.shape), np.zeros((1, *g.out, 1))
    for index, part, inside in padded_taps(case, x):
        total += np.where(inside, part - zero_x, 0)
        best = np.maximum(best, np.where(inside, part, 0))
        count += counted(g, index) if include_pad else inside
    factor = (ratio / count if op == "average" else np.float64(ratio)).astype(np.float32)
    want = best if op == "max" else np.rint(total.astype(np.float32) * factor) + zero_y
    name, params = plan_pool_int8(op)
    results = []
    for threads in (1, 3):
        wide = np.concatenate([x, np.full((*x.shape[:-1], case.gap), 255, np.uint8)], -1)
        y = np.full((g.images, *g.out, g.channels + case.gap), 7, np.uint8)
        record = row(name).args.filled(
            **pool_int8_args(tier, op, g, ratio, include_pad), x=wide, ldx=wide.shape[-1], y=y, ldy=y.shape[-1],
            zero_x=zero_x, zero_point=zero_y, low=low, high=high,
        )  # fmt: skip
        written = run(row(name), params, record, tier, threads, offset=3)[1]
        assert (written[..., g.channels :] == 7).all()
        results.append(written[..., : g.channels])
    np.testing.assert_array_equal(results[0], np.clip(want, low, high))
    assert results[0].tobytes() == results[1].tobytes()


@each_integer_tier
@pytest.mark.parametrize("op", ["max", "average"])
@pytest.mark.parametrize("window", [(3, 3, 2, 2), (2, 2, 2, 2), (5, 5, 1, 1)], ids=str)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_small_windows(tier: Any, window: Any, op: str, data: Any) -> None:
    case = data.draw(cases(tier.lanes, (1, *window[:2]), (1, *window[2:]), ceil=True))
    check(tier, case, op, op == "average" and data.draw(st.booleans()))


@each_integer_tier
@pytest.mark.parametrize("op", ["max", "average", "sum"])
@pytest.mark.parametrize(("h", "w", "c"), [(7, 7, 130), (1, 700, 5), (3, 300, 1)], ids=str)
def test_all_of_space(tier: Any, op: str, h: int, w: int, c: int) -> None:
    check(tier, Case(Window(2, c, (1, h, w), (1, h, w), (1, 1, 1)), 0, c), op)


@each_integer_tier
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_large_windows(tier: Any, data: Any) -> None:
    case = data.draw(cases(tier.lanes, (1, 5, 6), (1, 1, 3), 2, ceil=True))
    check(tier, case, data.draw(st.sampled_from(["max", "average"])))
