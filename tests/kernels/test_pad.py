"""Pads against numpy.pad."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.isa import tiers
from fastgraph.kernels.move.take_plan import pad_indices, padded
from tests.kernels.harness import each_tier
from tests.kernels.moving import numbered, perform


def bits(value: np.generic) -> int:
    return int.from_bytes(value.tobytes(), "little")


@given(st.data(), st.sampled_from(tiers.usable()), st.sampled_from(["constant", "reflect", "edge", "wrap"]))
@settings(max_examples=120, deadline=None)
def test_every_mode(data, tier, mode):
    shape, low, high = [], [], []
    for _ in range(data.draw(st.integers(1, 4))):
        n, a, b = (
            data.draw(st.integers(3, 6)),
            *(data.draw(st.sampled_from([0, 0, 1, 3, -1])) for _ in range(2)),
        )
        shape, low, high = [*shape, n], [*low, a], [*high, b]
    x = numbered(tuple(shape), data.draw(st.sampled_from([np.uint8, np.float32])))
    fill = x.dtype.type(77)
    grow = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    grown = np.pad(x, grow, constant_values=fill) if mode == "constant" else np.pad(x, grow, mode=mode)
    # A side is cropped or grown, so cropping afterwards is the same.
    expected = grown[tuple(slice(max(-a, 0), -max(-b, 0) or None) for a, b in zip(low, high, strict=True))]
    plan = padded(shape, list(zip(low, high, strict=True)), x.itemsize, mode, bits(fill))
    y = perform(plan, x, expected.shape, tier, data.draw(st.integers(1, 3)), data.draw(st.integers(0, 3)))
    np.testing.assert_array_equal(y, expected)


@each_tier
@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.int64])
def test_spatial_border_of_a_channels_last_image(tier, dtype):
    x = numbered((2, 5, 6, 19), dtype)
    plan = padded(x.shape, [(0, 0), (1, 2), (2, 1), (0, 0)], x.itemsize, fill=bits(dtype(-3)))
    assert plan.args["rank"] == 2
    expected = np.pad(x, [(0, 0), (1, 2), (2, 1), (0, 0)], constant_values=-3)
    np.testing.assert_array_equal(perform(plan, x, expected.shape, tier, 2), expected)


def test_indices_of_a_reflection_wider_than_the_axis():
    assert pad_indices(3, 4, 0, "reflect").tolist() == [0, 1, 2, 1, 0, 1, 2]
    assert pad_indices(3, 0, 0, "edge") is None
