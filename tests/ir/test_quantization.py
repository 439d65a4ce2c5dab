"""Scales below 0 turned: the same reals by scales that are not."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastgraph.ir import Quantization
from fastgraph.ir.quantization import is_upright, to_real, upright


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32])
@given(seed=st.integers(0, 99), axis=st.sampled_from([None, 0, 1]), least=st.booleans())
def test_upright_constants_stand_for_the_same(dtype: Any, seed: int, axis: int | None, least: bool) -> None:
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    stored = rng.integers(limits.min + (not least), limits.max, (3, 4), endpoint=True).astype(dtype)
    stored[0, 0] = limits.min + (not least)
    count = 1 if axis is None else stored.shape[axis]
    scales, zeros = rng.choice([-0.5, 0.0, 0.25, -1e-9], count), rng.integers(-9, 10, count)
    quant = Quantization(tuple(scales.tolist()), tuple(zeros.tolist()), axis)
    turned, found = upright(stored, quant)
    assert turned.dtype == dtype and is_upright(found) and found.axis == axis
    np.testing.assert_array_equal(to_real(turned, found), to_real(stored, quant))
    if dtype != np.uint8 and not least:
        assert set(map(abs, found.zero_point)) == set(map(abs, quant.zero_point)), "no number needs a complement"
