"""Which lowering takes which product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastgraph.plan.program import Step
from tests.nets import Net, assert_close, by_onnxruntime


@pytest.mark.parametrize(
    ("spatial", "attrs"),
    [((4,), {}), ((4, 5), {"dilations": [40000, 1]}), ((2, 3, 4, 5), {})],
    ids=["one dimension", "far dilation of one tap", "four dimensions"],
)
def test_a_convolution_of_single_pixels_is_dense_whatever_its_rank(spatial: Any, attrs: Any) -> None:
    net = Net()
    x = net.input("x", (2, 3, *spatial))
    net.output(net("Conv", x, net.weight(7, 3, *[1] * len(spatial)), net.weight(7), **attrs))
    model, value = net.load(), np.random.default_rng(0).standard_normal((2, 3, *spatial)).astype(np.float32)
    steps = model.plan.program.steps
    assert all(isinstance(step, Step) for step in steps) and "dot" in {step.kernel.name for step in steps}
    assert_close([model(value)], by_onnxruntime(net.bytes(), {"x": value}))
