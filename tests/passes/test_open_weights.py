"""Convolutions whose weights or bias are made at run time are native, and what onnxruntime computes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastgraph as fg
from fastgraph.freedoms import thresholds
from fastgraph.kernels.isa.tiers import usable
from fastgraph.plan.program import HostStep
from tests.amx_trap import loads_amx, tiles
from tests.kernels.test_amx_real import needs_bf16
from tests.nets import Net, assert_close, by_onnxruntime, by_reference, graph_of, numpy_steps

SOME = settings(max_examples=40, deadline=None)


def _drawn(data: Any, transposed: bool) -> tuple[Net, dict[str, np.ndarray]]:
    rank = data.draw(st.integers(1, 3))
    groups, each, made = data.draw(st.sampled_from([(1, 3, 4), (2, 2, 3), (4, 1, 1), (4, 1, 2)]))
    kernel, strides, dilations = ([data.draw(st.integers(1, most)) for _ in range(rank)] for most in (3, 3, 2))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [data.draw(st.integers(0, min(2, r - 1))) for r in (*reach, *reach)]
    spatial = [r + data.draw(st.integers(0, 4)) for r in reach]
    weights = (groups * each, made, *kernel) if transposed else (groups * made, each, *kernel)
    attrs = {"group": groups, "strides": strides, "dilations": dilations, "pads": pads}
    if transposed:
        attrs["output_padding"] = [data.draw(st.integers(0, s - 1)) for s in strides]
    rng, net = np.random.default_rng(data.draw(st.integers(0, 99))), Net()
    shapes = {"x": (2, groups * each, *spatial), "w": weights, "b": (groups * made,)}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    given = data.draw(st.sampled_from(["xw", "xwb", "xb"]))
    x, w, b = (net.input(name, shapes[name]) if name in given else net.const(feeds[name]) for name in "xwb")
    bias = [b] if "b" in given else []
    net.output(net("ConvTranspose" if transposed else "Conv", x, w, *bias, **attrs))
    return net, {name: feeds[name] for name in given}


@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
@pytest.mark.parametrize("groups, each, made", [(1, 5, 70), (2, 19, 33), (3, 8, 4), (37, 1, 1), (9, 1, 3)])
def test_native_windows(groups: int, each: int, made: int, isa: str) -> None:
    """Weights are packed in each run: sums, endings and operands of them, on one thread and several."""
    net, rng = Net(), np.random.default_rng(made)
    made *= groups
    shapes = {"x": (2, groups * each, 13, 21), "w": (made, each, 3, 2), "b": (made,), "r": (2, made, 7, 20)}
    x, w, b, r = (net.input(name, shape) for name, shape in shapes.items())
    attrs = {"group": groups, "strides": [2, 1], "pads": [1, 0, 1, 0]}
    y = net("Conv", x, net("Mul", w, w), b, **attrs)
    net.output(net("Relu", net("Add", y, r)))
    source, feeds = net.bytes(), {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    one, three = (fg.load(source, isa=isa, threads=threads) for threads in (1, 3))
    names = {step.kernel.name for step in one.plan.program.steps if not isinstance(step, HostStep)}
    assert len(names & {"conv", "depthwise", "depthwise_any"}) == 1
    found = list(one.run(feeds).values())
    assert_close(found, by_onnxruntime(source, feeds), 1e-4)
    assert np.array_equal(found, list(three.run(feeds).values()))


def test_large_windows() -> None:
    """Of as many taps as are not written one by one, with a bias."""
    net, rng = Net(), np.random.default_rng(0)
    shapes = {"x": (2, 5, 4, 10), "w": (3, 5, 17, 17), "b": (3,)}
    net.output(net("Conv", *(net.input(name, shape) for name, shape in shapes.items()), pads=[8] * 4))
    source, feeds = net.bytes(), {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    model = fg.load(source)
    assert not numpy_steps(model)
    assert_close(list(model.run(feeds).values()), by_onnxruntime(source, feeds), 1e-4)


def test_windows_that_chains_in_bands_leave_out() -> None:
    """Bands do parts of layers whose weights are packed once."""
    net, rng = Net(), np.random.default_rng(0)
    shapes = {"x": (1, 8, 9, 10), "v": (8, 1, 3, 3), "w": (8, 1, 3, 3)}
    x, v, w = (net.input(name, shape) for name, shape in shapes.items())
    y = net("Conv", net("Conv", x, v, group=8, pads=[1] * 4), w, group=8, pads=[1] * 4)
    net.output(net("MaxPool", y, kernel_shape=[3, 3]))
    source, feeds = net.bytes(), {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    with thresholds(bands_worth=1):
        model = fg.load(source)
    assert_close(list(model.run(feeds).values()), by_onnxruntime(source, feeds), 1e-4)


@loads_amx
@needs_bf16
@pytest.mark.parametrize("groups, each, made", [(1, 64, 64), (1, 6, 24), (3, 32, 40), (2, 38, 16), (2, 19, 33)])
def test_native_windows_of_bf16(groups: int, each: int, made: int) -> None:
    """Weights are rounded and packed in each run: whole lines of tiles and parts, whole panels and parts."""
    net, rng = Net(), np.random.default_rng(made)
    shapes = {"x": (2, groups * each, 13, 21), "w": (groups * made, each, 3, 2)}
    x, w = (net.input(name, shape) for name, shape in shapes.items())
    y = net("Conv", x, net("Mul", w, w), net.weight(groups * made), group=groups, pads=[1, 0, 1, 0])
    net.output(net("Relu", y))
    source, feeds = net.bytes(), {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}
    with tiles():
        one, three = (fg.load(source, isa="amx", precision="bfloat16", threads=threads) for threads in (1, 3))
        steps = [step for step in one.plan.program.steps if not isinstance(step, HostStep)]
        assert ("amx_real" in {step.kernel.name for step in steps}) == (each % 2 == 0)
        found = list(one.run(feeds).values())
        assert_close(found, by_onnxruntime(source, feeds), 1e-2)
        assert np.array_equal(found, list(three.run(feeds).values()))


@given(st.data(), st.booleans())
@SOME
def test_convolutions(data: Any, transposed: bool) -> None:
    net, feeds = _drawn(data, transposed)
    source = net.bytes()
    model = fg.load(source, threads=2)
    assert not numpy_steps(model)
    found = list(model.run(feeds).values())
    assert_close(found, by_reference(graph_of(source), feeds), 1e-4)
    assert_close(found, by_onnxruntime(source, feeds), 1e-4)


@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_a_computed_bias_of_quantized_weights(op: str, isa: str) -> None:
    """Bytes meet constants: with a bias that is fed the layer is one of reals."""
    net, rng = Net(), np.random.default_rng(0)
    x, b = net.input("x", (2, 8, 9, 9)), net.input("b", (8,))
    stored = net.const(rng.integers(-64, 65, (8, 8, 3, 3)), np.int8)
    scale, zero = net.const(np.float32(0.05)), net.const(np.int8(0))
    real = net("DequantizeLinear", net("QuantizeLinear", x, scale, zero), scale, zero)
    y = net(op, real, net("DequantizeLinear", stored, scale, zero), b, pads=[1] * 4)
    net.output(net("DequantizeLinear", net("QuantizeLinear", y, scale, zero), scale, zero))
    feeds = {n: rng.standard_normal(shape).astype(np.float32) for n, shape in {"x": (2, 8, 9, 9), "b": (8,)}.items()}
    model = fg.load(net.bytes(), isa=isa)
    assert not numpy_steps(model)
    ours, theirs = model.run(feeds).values(), by_onnxruntime(net.bytes(), feeds)
    assert max(np.abs(a - b).max() for a, b in zip(ours, theirs, strict=True)) < 0.051  # a step
