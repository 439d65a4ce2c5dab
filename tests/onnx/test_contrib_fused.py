"""Layers that onnxruntime's optimizer joins with their surroundings, and its normalizations, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import I64, Net
from tests.onnx.contrib import MS, S8, U8, agree, numbers

I32 = np.dtype(np.int32)


@pytest.mark.parametrize(
    "activation",
    [
        {}, {"activation": "Relu"}, {"activation": "Tanh"}, {"activation": "Sigmoid"},
        {"activation": "LeakyRelu", "activation_params": [0.2]},
        {"activation": "Clip", "activation_params": [-0.5, 0.7]},
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("bias, adds", [(True, True), (True, False), (False, True), (False, False)])
def test_fused_conv(activation: dict[str, Any], bias: bool, adds: bool) -> None:
    net = Net()
    inputs = [net.input("x", (1, 4, 7, 6)), net.weight(8, 2, 3, 3), net.weight(8) if bias else ""]
    inputs += [net.input("z", (1, 8, 7, 3))] if adds else []
    net.output(net("FusedConv", *inputs, domain=MS, group=2, pads=[1, 1, 1, 1], strides=[1, 2], **activation))
    shapes = {"x": (1, 4, 7, 6), **({"z": (1, 8, 7, 3)} if adds else {})}
    agree(net, {name: numbers(net.rng, shape, np.float32) for name, shape in shapes.items()})


def test_nhwc_conv_by_its_documentation() -> None:
    """onnxruntime has no CPU kernel: against Conv between transposes."""
    net = Net()
    x, w, b = net.input("x", (1, 7, 6, 4)), net.weight(8, 4, 3, 3), net.weight(8)
    y = net("NhwcConv", x, w, b, domain=MS, pads=[1, 0, 1, 0])
    z = net("NhwcFusedConv", x, w, b, y, domain=MS, pads=[1, 0, 1, 0], activation="Relu")
    turned = net("Conv", net("Transpose", x, perm=[0, 3, 1, 2]), w, b, pads=[1, 0, 1, 0])
    net.output(y, z, net("Transpose", turned, perm=[0, 2, 3, 1]))
    y, z, expected = net.load().run({"x": numbers(net.rng, (1, 7, 6, 4), np.float32)}).values()
    assert np.array_equal(y, expected) and np.allclose(z, np.maximum(2 * expected, 0))


@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
def test_nhwc_max_pool(dtype: Any) -> None:
    net = Net()
    x = net.input("x", (2, 9, 8, 5), dtype)
    y = net("NhwcMaxPool", x, domain=MS, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
    net.output(y, dtype=dtype)
    agree(net, {"x": numbers(net.rng, (2, 9, 8, 5), dtype)})


ACTIVATIONS = [
    {"activation": "Relu"}, {"activation": "LeakyRelu", "activation_alpha": 0.1}, {"activation": "Sigmoid"},
    {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.6}, {"activation": "Tanh"},
    {"activation": "Elu", "activation_alpha": 0.7}, {"activation": "Softplus"}, {"activation": "Softsign"},
    {"activation": "ThresholdedRelu", "activation_alpha": 0.2}, {"activation": "Celu", "activation_alpha": 0.5},
    {"activation": "Selu", "activation_alpha": 1.6, "activation_gamma": 1.1},
]  # fmt: skip


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("attrs", [{}, {"transA": 1, "alpha": 0.5}, {"transB": 1, "beta": 2.0}])
def test_fused_gemm(activation: dict[str, Any], attrs: dict[str, Any]) -> None:
    net = Net()
    shape = (6, 5) if attrs.get("transA") else (5, 6)
    w = net.weight(7, 6) if attrs.get("transB") else net.weight(6, 7)
    net.output(net("FusedGemm", net.input("a", shape), w, net.weight(7), domain=MS, **attrs, **activation))
    agree(net, {"a": numbers(net.rng, shape, np.float32)})


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    "a, b, attrs",
    [
        ((2, 3, 5, 6), (2, 3, 6, 4), {"alpha": 0.25}),
        ((2, 3, 6, 5), (2, 3, 4, 6), {"transA": 1, "transB": 1}),
        ((5, 2, 3, 6), (2, 3, 6, 4), {"transBatchA": 1}),
        ((6, 2, 3, 5), (4, 2, 3, 6), {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1}),
        ((6, 5), (4, 6), {"transA": 1, "transB": 1, "alpha": -1.5}),
        ((2, 5, 6), (6, 4), {}),
    ],
)
def test_fused_matmul(a: tuple[int, ...], b: tuple[int, ...], attrs: dict[str, Any], constant: bool) -> None:
    net = Net()
    feeds = {"a": numbers(net.rng, a, np.float32), "b": numbers(net.rng, b, np.float32)}
    right = net.const(feeds.pop("b")) if constant else net.input("b", b)
    net.output(net("FusedMatMul", net.input("a", a), right, domain=MS, **attrs))
    agree(net, feeds)


def test_transpose_matmul() -> None:
    net = Net()
    net.output(
        net("TransposeMatMul", net.input("a", (6, 5)), net.weight(4, 6), domain=MS, transA=1, transB=1, alpha=2.0)
    )
    agree(net, {"a": numbers(net.rng, (6, 5), np.float32)})


@pytest.mark.parametrize(
    "op, biased, attrs", [("Gelu", False, {}), ("FastGelu", False, {}), ("FastGelu", True, {}), ("BiasGelu", True, {}),
                          ("QuickGelu", False, {}), ("QuickGelu", False, {"alpha": 1.2})],
)  # fmt: skip
def test_gelus(op: str, biased: bool, attrs: dict[str, Any]) -> None:
    net = Net()
    net.output(net(op, net.input("x", (3, 5, 16)), *([net.weight(16)] if biased else []), domain=MS, **attrs))
    agree(net, {"x": numbers(net.rng, (3, 5, 16), np.float32)})


def test_biases_by_their_documentation() -> None:
    """onnxruntime has these for GPUs only: against their parts."""
    net = Net()
    x, skip, b, w = net.input("x", (2, 5, 16)), net.input("skip", (2, 5, 16)), net.weight(16), net.weight(16, 16)
    both = net("Add", x, b)
    left, right = net("Split", both, axis=-1, outputs=2)
    net.output(net("BiasAdd", x, b, skip, domain=MS), net("Add", both, skip))
    net.output(net("BiasSplitGelu", x, b, domain=MS), net("Mul", left, net("Gelu", right, domain=MS)))
    net.output(net("GemmFastGelu", x, w, b, domain=MS), net("FastGelu", net("MatMul", x, w), b, domain=MS))
    feeds = {name: numbers(net.rng, (2, 5, 16), np.float32) for name in ("x", "skip")}
    found = list(net.load().run(feeds).values())
    for have, want in zip(found[::2], found[1::2], strict=True):
        np.testing.assert_allclose(have, want, atol=1e-6)


@pytest.mark.parametrize("skip", [(2, 5, 16), (1, 5, 16), (5, 16)])
@pytest.mark.parametrize("beta, bias", [(True, True), (False, True), (True, False), (False, False)])
@pytest.mark.parametrize("simplified", [False, True])
def test_skip_layer_normalization(skip: tuple[int, ...], beta: bool, bias: bool, simplified: bool) -> None:
    net = Net()
    inputs = [net.input("x", (2, 5, 16)), net.input("skip", skip), net.weight(16)]
    inputs += [] if simplified else [net.weight(16) if beta else ""]
    inputs += [net.weight(16)] if bias else []
    op = "SkipSimplifiedLayerNormalization" if simplified else "SkipLayerNormalization"
    y, _, _, total = net(op, *inputs, domain=MS, outputs=4, epsilon=1e-5)
    net.nodes[-1].output[1] = net.nodes[-1].output[2] = ""
    net.output(y, total)
    agree(net, {"x": numbers(net.rng, (2, 5, 16), np.float32), "skip": numbers(net.rng, skip, np.float32)})


def test_simplified_layer_normalization() -> None:
    net = Net()
    net.output(net("SimplifiedLayerNormalization", net.input("x", (2, 5, 16)), net.weight(16), epsilon=1e-3))
    agree(net, {"x": numbers(net.rng, (2, 5, 16), np.float32)})


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("positions", [None, (2, 5), (1, 5)])
def test_embed_layer_normalization(segments: bool, masked: bool, positions: tuple[int, ...] | None) -> None:
    net = Net()
    shapes = {"ids": (2, 5), "segments": (2, 5), "mask": (2, 5), "positions": positions}
    given = {"ids": True, "segments": segments, "mask": masked, "positions": positions is not None}
    at = {name: net.input(name, shapes[name], I32) if given[name] else "" for name in shapes}
    tables = [net.weight(30, 16), net.weight(9, 16), net.weight(2, 16) if segments else ""]
    inputs = [at["ids"], at["segments"], *tables, net.weight(16), net.weight(16), at["mask"], at["positions"]]
    y, count, total = net("EmbedLayerNormalization", *inputs, domain=MS, outputs=3)
    net.output(y, total)
    net.output(count, dtype=I32)
    most = {"ids": 30, "segments": 2, "mask": 2, "positions": 9}
    feeds = {n: net.rng.integers(0, most[n], shapes[n]).astype(I32) for n in shapes if given[n]}
    agree(net, feeds)


@pytest.mark.parametrize("segments", [False, True])
def test_quantized_embed_layer_normalization(segments: bool) -> None:
    net = Net()
    ids = [net.input("ids", (2, 5), I32), net.input("segments", (2, 5), I32) if segments else ""]
    shapes = [(30, 16), (9, 16), (2, 16) if segments else None, (16,), (16,)]
    tables = [net.const(numbers(net.rng, s, U8)) if s else "" for s in shapes]
    scales = [net.const(np.float32(0.01 + i / 300)) if s else "" for i, s in enumerate(shapes)]
    zeros = [net.const(np.array(120 + i, U8)) if s else "" for i, s in enumerate(shapes)]
    y, count = net("QEmbedLayerNormalization", *ids, *tables, "", *scales, *zeros, domain=MS, outputs=2)
    net.output(y)
    net.output(count, dtype=I32)
    feeds = {"ids": net.rng.integers(0, 30, (2, 5)).astype(I32)}
    agree(net, feeds | ({"segments": net.rng.integers(0, 2, (2, 5)).astype(I32)} if segments else {}))


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("silu", [0, 1])
def test_group_norm_by_its_documentation(last: int, silu: int) -> None:
    """onnxruntime has these for GPUs only: against GroupNormalization."""
    net = Net(opset=21)
    shape = (2, 5, 6, 8) if last else (2, 8, 5, 6)
    x, skip, gamma, beta, bias = net.input("x", shape), net.input("skip", (2, 8)), *(net.weight(8) for _ in range(3))
    attrs = {"groups": 4, "epsilon": 1e-3, "activation": silu, "channels_last": last}
    y = net("GroupNorm", x, gamma, beta, domain=MS, **attrs)
    first = net("Transpose", x, perm=[0, 3, 1, 2]) if last else x
    unit = net("GroupNormalization", first, gamma, beta, num_groups=4, epsilon=1e-3)
    unit = net("Mul", unit, net("Sigmoid", unit)) if silu else unit
    net.output(y, net("Transpose", unit, perm=[0, 2, 3, 1]) if last else unit)
    if last:
        z, total = net("SkipGroupNorm", x, gamma, beta, skip, bias, domain=MS, outputs=2, **attrs)
        wide = net("Add", net("Add", x, net("Unsqueeze", skip, net.const(np.array([1, 2], I64)))), bias)
        net.output(z, net("GroupNorm", wide, gamma, beta, domain=MS, **attrs), total, wide)
    found = list(
        net.load().run({n: numbers(net.rng, s, np.float32) for n, s in (("x", shape), ("skip", (2, 8)))}).values()
    )
    for have, want in zip(found[::2], found[1::2], strict=True):
        np.testing.assert_allclose(have, want, atol=1e-5)


def test_what_is_malformed_is_named() -> None:
    for attrs, error in (
        ({"activation": "Clip"}, "expected 2 activation_params for 'Clip', found 0"),
        ({"activation": "Swish"}, "expected activation as one of .* found 'Swish'"),
        ({"activation": "Relu", "activation_params": [1.0]}, "expected 0 activation_params"),
    ):
        net = Net()
        net.output(net("FusedConv", net.input("x", (1, 4, 7, 6)), net.weight(8, 4, 3, 3), domain=MS, **attrs))
        with pytest.raises(fg.ModelError, match=error):
            net.load()
