"""Transposed convolutions of groups, as convolutions of their phases, against onnxruntime."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.nets import F32, Net, by_onnxruntime


def form(number: int) -> tuple[tuple[int, ...], dict[str, Any]]:
    """A random input shape and the attributes of a layer of it."""
    rng = np.random.default_rng(number)
    rank = int(rng.integers(1, 4))
    pick = lambda low, high: [int(n) for n in rng.integers(low, high, rank)]  # noqa: E731
    strides, dilations, kernel, size = pick(1, 4), pick(1, 4), pick(1, 6), pick(2, 8)
    pads = [int(rng.integers(0, (k - 1) * d + 1)) for k, d in zip(kernel, dilations, strict=True)]
    pads += [int(rng.integers(0, (k - 1) * d + 1)) for k, d in zip(kernel, dilations, strict=True)]
    extra = [int(rng.integers(0, s)) for s in strides]
    groups, own, made = (int(rng.choice(v)) for v in ([2, 3, 8, 17], [1, 1, 2], [1, 1, 2, 5]))
    shape = (int(rng.integers(1, 3)), groups * own, *size)
    attrs = {"group": groups, "strides": strides, "dilations": dilations, "pads": pads, "output_padding": extra}
    return shape, {**attrs, "kernel_shape": kernel, "made": made}


def layer(net: Net, shape: tuple[int, ...], attrs: dict[str, Any], x: str) -> str:
    made, groups = attrs["made"], attrs["group"]
    weights = [net.weight(shape[1], made, *attrs["kernel_shape"]), net.weight(made * groups)]
    return net("ConvTranspose", x, *weights, **{k: v for k, v in attrs.items() if k != "made"})


@pytest.mark.parametrize("seed", range(120))
def test_any_form(seed: int) -> None:
    shape, attrs = form(seed)
    full = [(n - 1) * s + e + (k - 1) * d + 1 - p - q for n, s, e, k, d, p, q in zip(
        shape[2:], attrs["strides"], attrs["output_padding"], attrs["kernel_shape"], attrs["dilations"],
        attrs["pads"], attrs["pads"][len(shape) - 2 :], strict=False)]  # fmt: skip
    if min(full) < 1:
        attrs["pads"] = [0] * len(attrs["pads"])
    net = Net()
    net.output(net("Relu", layer(net, shape, attrs, net.input("x", shape))))
    x = np.random.default_rng(0).standard_normal(shape).astype(F32)
    net.agrees_optimized({"x": x})


@pytest.mark.parametrize("dims", [(7,), (5, 6), (3, 4, 5)])
def test_no_matrix_product_is_left(dims: tuple[int, ...]) -> None:
    """And what follows is done by the convolutions."""
    n = len(dims)
    attrs = {"group": 8, "strides": [2] * n, "pads": [1] * 2 * n, "kernel_shape": [4] * n, "made": 1}
    net, shape = Net(), (1, 8, *dims)
    net.output(net("Relu", layer(net, shape, attrs, net.input("x", shape))))
    ops = Counter(node.op for node in net.optimized().nodes)
    assert ops["conv"] == 2**n and not ops["conv_transpose"] and not ops["fused"]


@pytest.mark.parametrize("seed", range(12))
def test_sums_with_other_maps(seed: int) -> None:
    """As in a decoder, where the encoder's map is added: behind the phases."""
    shape, attrs = form(seed)
    attrs["pads"] = [0] * len(attrs["pads"])
    out = [(n - 1) * s + e + (k - 1) * d + 1 for n, s, e, k, d in zip(
        shape[2:], attrs["strides"], attrs["output_padding"], attrs["kernel_shape"], attrs["dilations"],
        strict=True)]  # fmt: skip
    net, skip = Net(), (1 + seed % 2 * (shape[0] - 1), attrs["made"] * attrs["group"], *out)
    y = net("Add", net("Relu", layer(net, shape, attrs, net.input("x", shape))), net.input("skip", skip))
    net.output(net("Relu", y))
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(dims).astype(F32) for name, dims in (("x", shape), ("skip", skip))}
    net.agrees_optimized(feeds)


def test_a_sum_with_another_map_leaves_no_matrix_product() -> None:
    attrs = {"group": 8, "strides": [1, 2], "pads": [0, 1, 0, 1], "kernel_shape": [1, 4], "made": 1}
    net = Net()
    net.output(net("Add", layer(net, (1, 8, 5, 6), attrs, net.input("x", (1, 8, 5, 6))), net.input("s", (1, 8, 5, 12))))
    ops = Counter(node.op for node in net.optimized().nodes)
    assert ops["conv"] == 2 and not ops["conv_transpose"]


def test_what_is_not_a_number_stays_where_it_is() -> None:
    attrs = {"group": 4, "strides": [3, 2], "pads": [2, 1, 0, 1], "kernel_shape": [3, 4], "made": 1}
    net, shape = Net(), (1, 4, 5, 6)
    net.output(layer(net, shape, attrs, net.input("x", shape)))
    x = np.ones(shape, F32)
    x[0, 1, 2, 3], x[0, 2, 0, 0] = np.inf, np.nan
    (expected,), (found,) = by_onnxruntime(net.bytes(), {"x": x}), net.load().run({"x": x}).values()
    assert (np.isnan(found) == np.isnan(expected)).all() and (np.isinf(found) == np.isinf(expected)).all()


@pytest.mark.parametrize("groups", [2, 8])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("per_channel", [True, False])
def test_quantized(groups: int, signed: bool, per_channel: bool) -> None:
    """As onnxruntime's, up to a step: it sums reals."""
    stored, net, rng = np.int8 if signed else np.uint8, Net(), np.random.default_rng(groups)
    zero = 3 if signed else 130

    def through(x: str, scale: float) -> str:
        ends = [net.const(np.array(scale, F32)), net.const(np.array(zero, stored))]
        return net("DequantizeLinear", net("QuantizeLinear", x, *ends), *ends)

    x = through(net.input("x", (2, 8, 5, 6)), 0.03)
    held = net.const(rng.integers(-127, 128, (8, 8 // groups, 4, 4)).astype(np.int8))
    scales = rng.uniform(0.005, 0.02, 8 // groups).astype(F32) if per_channel else np.array(0.01, F32)
    w = net("DequantizeLinear", held, scales, np.zeros(scales.shape, np.int8), axis=1)
    y = net("ConvTranspose", x, w, net.weight(8), group=groups, strides=[2, 2], pads=[1, 0, 1, 2])
    net.output(through(net("Relu", y), 0.05))
    feeds = {"x": rng.standard_normal((2, 8, 5, 6)).astype(F32)}
    convs = [node for node in net.optimized().nodes if node.op == "conv"]
    assert len(convs) == 4 and all(node.out.type.quant is not None for node in convs)
    (expected,), (found,) = by_onnxruntime(net.bytes(), feeds), net.load().run(feeds).values()
    apart = np.rint(np.abs(found - expected) / 0.05)
    assert apart.max() <= 1 and apart.mean() < 0.01 and len(np.unique(found)) > 30
