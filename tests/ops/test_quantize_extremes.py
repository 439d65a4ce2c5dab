"""Quantization at its ends: scales and numbers that are no use to a network, but have an answer. As onnxruntime."""

from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.isa import tiers
from tests.nets import F32, Net, session

ODD = np.float32([np.nan, np.inf, -np.inf, 3e38, -3e38, 0, -0.0, 1, -1, 2.5, 0.05] * 4)


def agree(net: Net, feeds: dict[str, Any], **options: Any) -> np.ndarray:
    got = list(net.load(**options).run(feeds).values())[0]
    np.testing.assert_array_equal(got, session(net.bytes()).run(None, feeds)[0])
    return got


@pytest.mark.parametrize("isa", [tier.name for tier in tiers.usable()][::2])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16])
@pytest.mark.parametrize("scale", [0.1, -0.1, 0.0, np.nan, np.inf, 1e-38, 3e38])
def test_any_scale(scale: float, dtype: Any, isa: str) -> None:
    net = Net(21)
    x = net.input("x", ODD.shape)
    net.output(net("QuantizeLinear", x, np.float32(scale), dtype(3)), dtype=dtype)
    agree(net, {"x": ODD}, isa=isa)


@pytest.mark.parametrize("scale", [-0.1, 0.0, np.inf])
def test_any_scale_of_stored_numbers(scale: float) -> None:
    net = Net(21)
    x = net.input("x", (256,), np.uint8)
    net.output(net("DequantizeLinear", x, np.float32(scale), np.uint8(3)))
    agree(net, {"x": np.arange(256).astype(np.uint8)})


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("unit", [1e-3, 1e-8, 1e-20, 1e-38])
@pytest.mark.parametrize("op", ["AveragePool", "GlobalAveragePool", "ReduceMean", "Relu", "Add"])
def test_results_far_beyond_the_range_saturate(op: str, unit: float, dtype: Any) -> None:
    attrs: dict[str, Any] = {"AveragePool": {"kernel_shape": [2, 2]}, "ReduceMean": {"axes": [2, 3]}}.get(op, {})
    net = Net(17)
    x, zero, one = net.input("x", (1, 2, 4, 4), dtype), net.const(dtype(3)), net.const(np.float32(1))
    real = net("DequantizeLinear", x, one, zero)
    y = net(op, *[real] * (2 if op == "Add" else 1), **attrs)
    net.output(net("QuantizeLinear", y, np.float32(unit), zero), dtype=dtype)
    limits = np.iinfo(dtype)
    stored = np.random.default_rng(0).integers(limits.min, limits.max, (1, 2, 4, 4), dtype, endpoint=True)
    assert set(np.unique(agree(net, {"x": stored}))) <= {limits.min, limits.max, 3}


@pytest.mark.parametrize("op", ["QLinearMatMul", "QLinearConv"])
def test_long_sums_are_exact(op: str) -> None:
    """80,000 products of 255 and 127 are more than an int32 holds; onnxruntime wraps."""
    k = 80000
    shape, w = ((1, k), (k, 1)) if op == "QLinearMatMul" else ((1, k, 1, 1), (1, k, 1, 1))
    net = Net(17)
    scale, zero = net.const(np.float32(0.001)), net.const(np.uint8(0))
    x = net.input("x", shape, np.uint8)
    weights = net.const(np.full(w, 127, np.int8))
    net.output(net(op, x, scale, zero, weights, scale, np.int8(0), 20.0, zero),
               dtype=np.uint8)  # fmt: skip
    assert net.load()(np.full(shape, 255, np.uint8)).item() == round(k * 255 * 127 * 1e-6 / 20)


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
def test_windows_in_padding_alone_are_refused(op: str) -> None:
    """As onnxruntime does."""
    import fastgraph as fg

    net = Net(22)
    net.output(net(op, net.input("x", (1, 1, 4)), kernel_shape=[2], pads=[2, 0]))
    with pytest.raises(Exception, match="Pad should be smaller"):
        session(net.bytes())
    with pytest.raises(fg.ModelError, match="pads must be less than the window"):
        net.load()


@pytest.mark.parametrize(("pads", "ceil", "extra"), [
    ([1, 1], 1, {}), ([1, 0], 1, {"count_include_pad": 1}), ([0, 1], 1, {"count_include_pad": 1}),
    (None, 1, {"auto_pad": "VALID"}),
])  # fmt: skip
@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_averages_at_the_ends(size: int, pads: Any, ceil: int, extra: dict[str, Any]) -> None:
    net = Net(22)
    attrs = {"kernel_shape": [3], "strides": [2], "ceil_mode": ceil, **extra} | ({"pads": pads} if pads else {})
    y = net("AveragePool", net.input("x", (1, 1, size)), **attrs)
    net.output(y)
    x = np.arange(1, size + 1, dtype=np.float32).reshape(1, 1, -1)
    wanted = session(net.bytes()).run(None, {"x": x})[0]
    if wanted.size:
        np.testing.assert_allclose(net.load()(x), wanted, rtol=1e-6)


def test_a_dilated_window_may_step_over_all_of_the_data() -> None:
    net = Net(22)
    y = net("AveragePool", net.input("x", (1, 1, 1)), kernel_shape=[2], pads=[1, 1], dilations=[2])
    net.output(y)
    x = np.ones((1, 1, 1), np.float32)
    assert net.load()(x).tolist() == session(net.bytes()).run(None, {"x": x})[0].tolist() == [[[0.0]]]


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool", "LpPool"])
def test_dilated_windows_have_more_padding_than_taps(op: str) -> None:
    """SAME pads a window of 3 taps, 4 apart, by 4 on each side; onnxruntime forgets the dilations there."""
    net = Net(22)
    net.output(net(op, net.input("x", (1, 1, 9)), kernel_shape=[3], dilations=[4], auto_pad="SAME_UPPER"))
    x = np.arange(1, 10, dtype=np.float32)
    taps = np.lib.stride_tricks.sliding_window_view(np.pad(x, 4), 9)[:, ::4]
    wanted = {
        "AveragePool": taps.sum(1) / (taps != 0).sum(1),
        "MaxPool": taps.max(1),
        "LpPool": np.sqrt(np.square(taps).sum(1)),
    }
    np.testing.assert_allclose(net.load()(x.reshape(1, 1, 9)).ravel(), wanted[op], rtol=1e-6)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("unit", [0.02, 5.0, 1e20])
def test_a_bias_is_not_lost_in_units_of_its_sums(unit: float, real: bool) -> None:
    """Those of x's scale times the weights' may be more than a step of the result, or a good part of the bias."""
    net = Net(17)
    x = net.input("x", (1, 3, 4, 4), np.uint8)
    w = net.const(net.rng.integers(-100, 100, (5, 3, 1, 1)).astype(np.int8))
    reals = [net("DequantizeLinear", v, np.float32(s)) for v, s in ((x, unit), (w, 0.01))]
    y = net("Conv", *reals, net.weight(5))
    if not real:
        y = net("QuantizeLinear", y, 0.02, np.uint8(128))
    net.output(y, dtype=F32 if real else np.uint8)
    feeds = {"x": net.rng.integers(0, 2, (1, 3, 4, 4)).astype(np.uint8) * (unit < 1e9)}
    (want,), (got,) = session(net.bytes()).run(None, feeds), net.load().run(feeds).values()
    assert np.abs(got.astype(F32) - want).max() <= (1e-3 if real else 1)
