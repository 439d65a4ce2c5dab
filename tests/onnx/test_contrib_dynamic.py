"""Dynamically quantized products against onnxruntime, and networks that its quantize_dynamic writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import fastgraph as fg
from tests.nets import F32, Net, by_onnxruntime
from tests.onnx.contrib import MS, S8, U8, agree, compare, hosts, numbers
from tests.onnx.test_contrib_linear import linear, weights


@pytest.mark.parametrize("stored", [S8, U8], ids=str)
@pytest.mark.parametrize("count", [0, 1, 10])
@pytest.mark.parametrize("zeros, bias", [(True, True), (False, False), (None, True)])
def test_dynamic_quantize_matmul(stored: Any, count: int, zeros: bool | None, bias: bool) -> None:
    net = Net()
    w, scale, zero = weights(net, stored, (24, 10), count, bool(zeros))
    inputs = [net.input("x", (3, 5, 24)), w, scale, "" if zeros is None else zero, net.weight(10) if bias else ""]
    net.output(net("DynamicQuantizeMatMul", *inputs, domain=MS))
    agree(net, {"x": numbers(net.rng, (3, 5, 24), F32)}, rtol=1e-4)


@pytest.mark.parametrize("dtype, stored", [(U8, U8), (U8, S8), (S8, S8)], ids=str)
@pytest.mark.parametrize("count", [0, 10])
@pytest.mark.parametrize("bias", [True, False])
def test_matmul_integer_to_float(dtype: Any, stored: Any, count: int, bias: bool) -> None:
    net = Net()
    w, scale, zero = weights(net, stored, (24, 10), count, True)
    x_scale, x_zero = linear(net, dtype, 0)
    inputs = [net.input("x", (3, 5, 24), dtype), w, x_scale, scale, x_zero, zero, net.weight(10) if bias else ""]
    net.output(net("MatMulIntegerToFloat", *inputs, domain=MS))
    agree(net, {"x": numbers(net.rng, (3, 5, 24), dtype)}, rtol=1e-4)


def test_matmul_integer_to_float_of_what_is_rounded_in_the_run() -> None:
    net = Net()
    w, scale, zero = weights(net, S8, (24, 10), 10, False)
    stored, x_scale, x_zero = net("DynamicQuantizeLinear", net.input("x", (5, 24)), outputs=3)
    net.output(net("MatMulIntegerToFloat", stored, w, x_scale, scale, x_zero, zero, net.weight(10), domain=MS))
    agree(net, {"x": numbers(net.rng, (5, 24), F32)}, rtol=1e-4)


def small(kind: str) -> Net:
    """A network of layers that quantize_dynamic rounds."""
    net = Net()
    x = net.input("x", (2, 3, 12, 12) if kind == "conv" else (2, 5, 32))
    if kind == "conv":
        y = net("Relu", net("Conv", x, net.weight(16, 3, 3, 3), net.weight(16), pads=[1, 1, 1, 1]))
        z = net("Relu", net("Conv", y, net.weight(16, 1, 3, 3), net.weight(16), pads=[1, 1, 1, 1], group=16))
        y = net("Add", y, net("Conv", z, net.weight(16, 16, 1, 1)))
        y = net("Flatten", net("GlobalAveragePool", y))
        y = net("Gemm", y, net.weight(10, 16), net.weight(10), transB=1)
    else:
        y = x
        for _ in range(2):
            q, k, v = (net("Add", net("MatMul", y, net.weight(32, 32)), net.weight(32)) for _ in range(3))
            scores = net("Softmax", net("MatMul", q, net("Transpose", k, perm=[0, 2, 1])), axis=-1)
            y = net("Add", y, net("MatMul", net("MatMul", scores, v), net.weight(32, 32)))
            y = net("Add", y, net("MatMul", net("Relu", net("MatMul", y, net.weight(32, 64))), net.weight(64, 32)))
    net.output(y)
    return net


@pytest.mark.parametrize("kind", ["conv", "attention"])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("per_channel", [True, False])
def test_networks_of_quantize_dynamic(kind: str, signed: bool, per_channel: bool, tmp_path: Path) -> None:
    """Rounding is coarse: where a real lies between two steps, either is right, and layers that follow spread it."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    net = small(kind)
    onnx.save(net.model(), tmp_path / "f32.onnx")
    weight_type = QuantType.QInt8 if signed else QuantType.QUInt8
    quantize_dynamic(tmp_path / "f32.onnx", tmp_path / "q.onnx", weight_type=weight_type, per_channel=per_channel)
    data = (tmp_path / "q.onnx").read_bytes()
    assert b"DynamicQuantizeLinear" in data
    model = fg.load(data, threads=1)
    feeds = {"x": numbers(net.rng, model.inputs[0].shape, F32)}
    compare(model(feeds["x"]), by_onnxruntime(data, feeds)[0], 0, 0.02)
    assert not hosts(model)


@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
@pytest.mark.parametrize("zero", [None, 7])
def test_products_of_whole_numbers(op: str, dtype: Any, zero: int | None) -> None:
    """Sums that f32 holds are kernels' work: they are whole."""
    if op == "ConvInteger" and dtype == S8:
        pytest.skip("onnxruntime has no such kernel")
    net = Net()
    shape, weight = ((2, 5, 24), (24, 10)) if op == "MatMulInteger" else ((1, 4, 8, 8), (8, 4, 3, 3))
    attrs = {} if op == "MatMulInteger" else {"pads": [1, 1, 1, 1]}
    w = net.const(numbers(net.rng, weight, dtype))
    points = [] if zero is None else [net.const(np.array(zero, dtype))]
    net.output(net(op, net.input("x", shape, dtype), w, *points, **attrs), dtype=np.int32)
    agree(net, {"x": numbers(net.rng, shape, dtype)})


def test_sums_that_f32_does_not_hold_are_exact() -> None:
    net = Net()
    net.output(
        net("MatMulInteger", net.input("x", (2, 900), U8), net.const(np.full((900, 3), 127, S8))), dtype=np.int32
    )
    agree(net, {"x": numbers(net.rng, (2, 900), U8)})


def test_rounding_by_range_alone() -> None:
    net = Net()
    y, scale, zero = net("DynamicQuantizeLinear", net.input("x", (3, 40)), outputs=3)
    product = net("MatMulInteger", y, net.const(numbers(net.rng, (40, 6), S8)), zero)
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
    c = net("Cast", net("MatMulInteger", y, net.const(numbers(net.rng, (24, 10), S8)), zero), to=1)
    w = net.const(net.rng.uniform(0.01, 0.02, 10).astype(F32))
    net.output({"(c s) w": lambda: net("Mul", net("Mul", c, s), w), "c (w s)": lambda: net("Mul", c, net("Mul", w, s)),
                "(c w) s": lambda: net("Mul", net("Mul", c, w), s)}[form]())  # fmt: skip
    agree(net, {"x": numbers(net.rng, (5, 24), F32)}, rtol=1e-4)
    assert {step.node.op for step in net.load().plan.program.steps} == {"dynamic_dense"}
