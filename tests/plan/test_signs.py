"""The sign of what is zero, or counts as zero within a run, is 0 and not a number as small, nor a zero with a sign."""

from __future__ import annotations

import numpy as np
import pytest

from fastgraph.kernels.isa.tiers import usable
from tests.nets import F32, Net


@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
def test_the_sign_of_next_to_nothing(isa: str) -> None:
    net = Net()
    signs = net("Sign", net.input("x", (1, 8)))
    net.output(signs, net("Reciprocal", signs))
    x = np.array([[0.0, -0.0, 1e-40, -1e-40, np.nan, np.inf, -3.0, 1e-30]], F32)
    found, turned = net.load(isa=isa).run({"x": x}).values()
    assert np.array_equal(found, F32.type([[0, 0, 0, 0, np.nan, 1, -1, 1]]), equal_nan=True)
    assert np.array_equal(turned, F32.type([[np.inf] * 4 + [np.nan, 1, -1, 1]]), equal_nan=True)
