"""Convolutions of few output channels, whose neighbors in a row are computed together, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastgraph.kernels.gemm.pick_conv import Geometry, pixels_together, split_row, widened
from fastgraph.kernels.gemm.rows import CONV_F32 as ROW
from fastgraph.kernels.isa import tiers
from tests.nets import F32, Net, assert_close, by_onnxruntime


def run(net: Net, shape: tuple[int, ...], tier: str | None = None, threads: int = 1) -> Any:
    """The model, whose results are onnxruntime's."""
    model, x = net.load(isa=tier, threads=threads), net.rng.standard_normal(shape).astype(F32)
    assert_close([model(x)], by_onnxruntime(net.bytes(), {"x": x}))
    return model


@settings(max_examples=60, deadline=None)
@given(data=st.data(), tier=st.sampled_from(tiers.usable()), threads=st.integers(1, 2))
def test_any(data: Any, tier: Any, threads: int) -> None:
    rank, net = data.draw(st.integers(1, 3)), Net(seed=data.draw(st.integers(0, 99)))
    images, c, n = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 9)), data.draw(st.integers(1, 8))
    kernel, strides, pads, shape = [], [], [], [images, c]
    for _ in range(rank):
        k, stride = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 3))
        before, after = data.draw(st.integers(0, k - 1)), data.draw(st.integers(0, k - 1))
        shape.append(data.draw(st.integers(max(k - before - after, 1), 90 if rank == 1 else 19)))
        kernel.append(k)
        strides.append(stride)
        pads.append((before, after))
    x = net.input("x", shape)
    bias = [net.weight(n)] if data.draw(st.booleans()) else []
    attrs = {"strides": strides, "pads": [p[end] for end in (0, 1) for p in pads]}
    y = net("Conv", x, net.weight(n, c, *kernel), *bias, **attrs)
    ending = data.draw(st.sampled_from(["", "Relu", "Sigmoid", "Mul", "Concat"]))
    if ending == "Mul":
        y = net("Mul", y, net.weight(n, *[1] * rank))
    elif ending == "Concat":
        y = net("Concat", y, net("Relu", y), axis=1)
    elif ending:
        y = net(ending, y)
    net.output(y)
    run(net, tuple(shape), tier.name, threads)


@pytest.mark.parametrize("width", (64, 65, 67, 4001))
@pytest.mark.parametrize("stride", (1, 2))
def test_a_row_of_any_width(width: int, stride: int) -> None:
    net = Net()
    shape = (1, 2, width)
    net.output(net("Conv", net.input("x", shape), net.weight(1, 2, 40), net.weight(1), strides=[stride], pads=[6, 33]))
    widths = {step.args[list(ROW).index("n")] for step in run(net, shape).plan.program.steps if hasattr(step, "kernel")
              and step.kernel.name == "conv"}  # fmt: skip
    assert max(widths) > 1


def test_how_many_pixels() -> None:
    tier = tiers.BY_NAME["avx512"]

    def window(n: int, w: int, k: int, h: int = 8) -> Geometry:
        return Geometry(1, 1, 8, n, (1, h, w), (1, k, k), (1, h, w), (h * w * 8, h * w * 8, w * 8, 8),
                        pads=(0, k // 2, k // 2))  # fmt: skip

    assert pixels_together(tier, window(8, 64, 5)) in (2, 4)
    assert pixels_together(tier, window(1, 64, 5)) >= 8
    assert pixels_together(tier, window(16, 64, 5)) == 1
    assert pixels_together(tier, window(1, 61, 5)) == 1  # rows have no such parts
    row = window(1, 6001, 5, 1)._replace(kernel=(1, 1, 5), pads=(0, 0, 2))
    together = pixels_together(tier, row)
    first, rest, further = split_row(row, together)
    assert together > 8 and first.out[2] + rest.out[2] == 6001 and further == first.out[2] - 2
    assert widened(first, together).n == together


@pytest.mark.parametrize("tier", tiers.usable(), ids=lambda tier: tier.name)
def test_what_is_not_finite_stays_near(tier: Any) -> None:
    """As with Winograd's products, within the pixels that are computed together."""
    net = Net()
    net.output(net("Conv", net.input("x", (1, 2, 8, 64)), net.weight(1, 2, 5, 5), pads=[2, 2, 2, 2]))
    x = np.zeros((1, 2, 8, 64), F32)
    x[0, 0, 4, 40] = np.nan
    y = net.load(isa=tier.name)(x)
    assert np.isnan(y[0, 0, 2:7, 38:43]).all() and np.isfinite(y[0, 0, :2]).all() and np.isfinite(y[..., :8]).all()


@settings(max_examples=30, deadline=None)
@given(data=st.data(), dtype=st.sampled_from([np.float32, np.int8, np.int64]))
def test_pads_of_single_channels_into_a_concat(data: Any, dtype: Any) -> None:
    """Elements of a result that lies among others' are no neighbors; pads may crop and be any number."""
    net, shape = Net(), (1, 5, 9, 1)
    x = net.input("x", shape, dtype)
    parts, rows = [], data.draw(st.integers(1, 7))
    for _ in range(3):
        before = data.draw(st.lists(st.integers(-2, 3), min_size=2, max_size=2))
        pads = [0, before[0], before[1], 0, 0, rows - before[0] - 5, 8 - before[1] - 9, 0]
        number = net.const(np.array(data.draw(st.integers(-3, 3)), dtype))
        parts.append(net("Pad", x, net.const(np.array(pads, np.int64)), number))
    net.output(net("Concat", *parts, axis=3), dtype=dtype)
    model, value = net.load(), net.rng.integers(-99, 99, shape).astype(dtype)
    np.testing.assert_array_equal(model(value), by_onnxruntime(net.bytes(), {"x": value})[0])
