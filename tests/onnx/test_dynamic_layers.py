"""Layers of integers against onnxruntime: what its quantize_dynamic writes, and their sums by themselves."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import fastgraph as fg
from fastgraph.kernels.isa import tiers
from tests.exact_products import SATURATES
from tests.nets import F32, Net, by_onnxruntime, by_reference, graph_of
from tests.onnx.contrib import MS, S8, U8, agree, dynamically_quantized, hosts, numbers
from tests.onnx.test_contrib import weights as weights_of

TIERS = [tier.name for tier in tiers.usable() if tier.name != "generic"][:: max(len(tiers.usable()) - 2, 1)]
"""The narrowest that is quick to compile, and the widest."""

Layer = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]
LAYERS: dict[str, Layer] = {
    "3x3": ((1, 16, 9, 8), (24, 16, 3, 3), {"pads": [1, 1, 1, 1]}),
    "batch": ((3, 16, 9, 8), (24, 16, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    "uneven padding": ((2, 3, 9, 8), (8, 3, 3, 2), {"pads": [0, 2, 1, 0], "dilations": [2, 1]}),
    "same": ((1, 5, 9, 8), (8, 5, 3, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "1x1": ((2, 70, 5, 4), (33, 70, 1, 1), {}),
    "one channel": ((1, 1, 20, 9), (8, 1, 5, 3), {"strides": [2, 1]}),
    "groups": ((2, 64, 7, 6), (32, 16, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    "narrow groups": ((1, 12, 7, 6), (18, 2, 3, 3), {"group": 6}),
    "many products": ((2, 512, 4, 5), (8, 256, 3, 3), {"group": 2, "pads": [1, 0, 1, 0]}),
    "depthwise": ((2, 20, 9, 8), (20, 1, 3, 3), {"group": 20, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "depthwise, several results": ((1, 6, 9, 8), (18, 1, 5, 5), {"group": 6, "pads": [2, 2, 2, 2]}),
    "large depthwise": ((1, 4, 21, 20), (4, 1, 19, 17), {"group": 4}),
    "1d": ((2, 16, 31), (24, 16, 5), {"pads": [4, 4], "dilations": [2]}),
    "1d, depthwise": ((1, 24, 31), (24, 1, 7), {"group": 24, "pads": [3, 3]}),
    "1d, groups": ((2, 24, 31), (12, 6, 7), {"group": 4}),
    "transposed": ((1, 8, 9, 7), (8, 8, 3, 3), {}),
    "3d": ((1, 8, 5, 6, 7), (8, 8, 3, 3, 3), {"pads": [1] * 6}),
    "3d, many products": ((1, 64, 3, 4, 5), (8, 64, 3, 3, 3), {"pads": [1] * 6}),
}


def quantized(layer: Layer, signed: bool, turned: bool, tmp_path: Path) -> bytes:
    """What quantize_dynamic makes of a network of one layer, with open extents. turned: its input is transposed."""
    from onnxruntime.quantization import QuantType

    x, w, attrs = layer
    net = Net()
    y = net.input("x", ["batch", x[1], *(f"d{i}" for i in range(len(x) - 2))])
    perm = [0, 1, *range(2, len(x))[::-1]]
    y = net("Transpose", y, perm=perm) if turned else y
    net.output(net("Relu", net("Conv", y, net.weight(*w), *[net.weight(w[0])] * signed, **attrs)))
    kind = QuantType.QInt8 if signed else QuantType.QUInt8
    return dynamically_quantized(net, tmp_path, weight_type=kind, op_types_to_quantize=["Conv"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_quantize_dynamic(name: str, signed: bool, tmp_path: Path) -> None:
    """The sums are the same integers, so that only the last rounding differs."""
    source = quantized(LAYERS[name], signed, name == "transposed", tmp_path)
    feeds = {"x": numbers(np.random.default_rng(1), LAYERS[name][0], F32)}
    (expected,) = by_onnxruntime(source, feeds)
    for isa in TIERS:
        model = fg.load(source, threads=2, isa=isa)  # type: ignore[arg-type]
        (found,) = model.run(feeds).values()
        assert not hosts(model), str(model)
        np.testing.assert_allclose(found, expected, rtol=3e-7, atol=3e-7 * np.abs(expected).max())
    assert name != "transposed" or "conv_dynamic" in {kernel.name for kernel in model.plan.kernels()}


SUMMED = ["uneven padding", "1x1", "many products", "depthwise", "large depthwise", "1d"]
FORMS = [*product(("none", "one", "each"), ("none", "constant", "computed"), (S8, U8), (S8, U8))]
SUMS = [(name, *form) for at, name in enumerate(SUMMED) for form in FORMS[at % 5 :: 5]]
"""Each form with a layer or two."""


@pytest.mark.parametrize("name, points, zero, given, weights", SUMS)
def test_sums_themselves(name: str, points: str, zero: str, given: Any, weights: Any) -> None:
    x, w, attrs = LAYERS[name]
    net = Net()
    zeros = {"none": "", "constant": net.const(np.array(7, given)), "computed": "z"}[zero]
    w_zeros = {"none": np.zeros(0), "one": np.array(3, weights), "each": numbers(net.rng, (w[0],), weights)}[points]
    inputs = [net.input("x", x, given), net.const(numbers(net.rng, w, weights)), zeros]
    inputs += [net.const(w_zeros)] * (points != "none")
    sums = net("ConvInteger", *inputs, **attrs)
    net.output(sums, dtype=np.int32)
    net.output(net("Mul", net("Cast", sums, to=1), 0.5))
    feeds = {"x": numbers(net.rng, x, given)}
    if zero == "computed":
        net.input("z", (), given)
        feeds["z"] = np.array(9, given)
    expected = by_reference(graph_of(net.bytes()), feeds)
    if points != "each":  # which onnxruntime does not take
        # and which it sums in 16 bits where there is no VNNI (exact_products.py): then by onnx's own reference
        source = net.model()
        peer = ReferenceEvaluator(source).run(None, feeds) if SATURATES else by_onnxruntime(net.bytes(), feeds)
        np.testing.assert_array_equal(peer[0], expected[0])
    for isa in TIERS:
        model = net.load(isa=isa)
        for found, right in zip(model.run(feeds).values(), expected, strict=True):
            np.testing.assert_array_equal(found, right)
        assert not hosts(model), str(model)


@pytest.mark.parametrize("stored", [S8, U8], ids=str)
@pytest.mark.parametrize("op", ["QDQ", "QLinearConv"])
@pytest.mark.parametrize("count", [1, 12])
@pytest.mark.parametrize("least", [False, True])
def test_weights_with_scales_below_zero(op: str, stored: Any, count: int, least: bool) -> None:
    """onnxruntime takes them, and so do kernels of integers. least: the weights have a number that none is minus of."""
    net = Net()
    w = np.maximum(numbers(net.rng, (12, 8, 3, 3), stored), np.iinfo(stored).min + 1)
    w.reshape(-1)[::50] -= least
    scale = np.where(np.arange(count) % 3, -0.01, 0.02).astype(F32) if count > 1 else np.float32(-0.01)
    q_w = [net.const(w), net.const(scale), net.const(np.full(np.shape(scale), 0 if stored == S8 else 128, stored))]
    q_x, q_y = ([net.const(np.float32(0.05)), net.const(np.array(zero, U8))] for zero in (120, 90))
    x = net.input("x", (1, 8, 6, 7), U8)
    if op == "QLinearConv":
        y = net(op, x, *q_x, *q_w, *q_y, pads=[1, 1, 1, 1])
    else:
        reals = net("DequantizeLinear", x, *q_x), net("DequantizeLinear", *q_w, axis=0)
        y = net("QuantizeLinear", net("Conv", *reals, pads=[1, 1, 1, 1]), *q_y)
    net.output(y, dtype=U8)
    feeds = {"x": numbers(net.rng, (1, 8, 6, 7), U8)}
    model = net.load()
    (found,), (expected,) = model.run(feeds).values(), by_onnxruntime(net.bytes(), feeds)
    assert np.abs(found.astype(int) - expected).max() <= 1
    assert {kernel.name for kernel in model.plan.kernels()} & {"conv_int8", "amx_conv"}, str(model)


@pytest.mark.parametrize("scales", [(-0.05, 0.04), (0.05, -0.04), (-0.05, -0.04)], ids=str)
def test_activations_with_scales_below_zero(scales: tuple[float, float]) -> None:
    """They are computed in f32."""
    net = Net()
    x = net("DequantizeLinear", net.input("x", (1, 8, 6, 7), U8), scales[0], np.array(120, U8))
    w = net("DequantizeLinear", numbers(net.rng, (12, 8, 3, 3), S8), 0.01)
    y = net("Relu", net("Conv", x, w))
    net.output(net("QuantizeLinear", y, scales[1], np.array(100, U8)), dtype=U8)
    feeds, model = {"x": numbers(net.rng, (1, 8, 6, 7), U8)}, net.load()
    (found,), (expected,) = model.run(feeds).values(), by_onnxruntime(net.bytes(), feeds)
    assert np.abs(found.astype(int) - expected).max() <= 1 and not hosts(model)


def test_matmul_integer_to_float_of_what_is_rounded_in_the_run() -> None:
    net = Net()
    w, scale, zero = (operand(net, {}) for operand in weights_of(S8, (24, 10), 10, False))
    stored, x_scale, x_zero = net("DynamicQuantizeLinear", net.input("x", (5, 24)), outputs=3)
    net.output(net("MatMulIntegerToFloat", stored, w, x_scale, scale, x_zero, zero, net.weight(10), domain=MS))
    agree(net, {"x": numbers(net.rng, (5, 24), F32)}, rtol=1e-4)


def test_rounding_by_range_alone() -> None:
    net = Net()
    y, scale, zero = net("DynamicQuantizeLinear", net.input("x", (3, 40)), outputs=3)
    product = net("MatMulInteger", y, numbers(net.rng, (40, 6), S8), zero)
    net.output(y, zero, dtype=U8)
    net.output(scale)
    net.output(product, dtype=np.int32)
    agree(net, {"x": numbers(net.rng, (3, 40), F32)})
    for fed in (np.zeros((3, 40), F32), np.full((3, 40), 2.5, F32), np.full((3, 40), -2.5, F32)):
        agree(net, {"x": fed})


@pytest.mark.parametrize("form", ["(c s) w", "c (w s)", "(c w) s"])
def test_factors_in_any_order_make_a_rounding_layer(form: str) -> None:
    net = Net()
    y, s, zero = net("DynamicQuantizeLinear", net.input("x", (5, 24)), outputs=3)
    c = net("Cast", net("MatMulInteger", y, numbers(net.rng, (24, 10), S8), zero), to=1)
    w = net.const(net.rng.uniform(0.01, 0.02, 10).astype(F32))
    first, last = {"(c s) w": ((c, s), w), "c (w s)": ((w, s), c), "(c w) s": ((c, w), s)}[form]
    net.output(net("Mul", net("Mul", *first), last))
    agree(net, {"x": numbers(net.rng, (5, 24), F32)}, rtol=1e-4)
    assert {step.node.op for step in net.load().plan.program.steps} == {"dynamic_dense"}
