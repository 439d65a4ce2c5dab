"""onnxruntime's QOperator format against onnxruntime: no step of it is left to NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import Net
from tests.onnx.contrib import MS, S8, U8, agree, numbers

BYTES = pytest.mark.parametrize("dtype", [U8, S8], ids=str)
SCALES = (0.0213, 0.0307, 0.0497)
"""None near a simple multiple of another: results would be ties."""


def linear(net: Net, dtype: Any, at: int) -> list[str]:
    """A scale and a zero point."""
    zero = (117, 3, 99)[at] if dtype == U8 else (-5, 3, -128)[at]
    return [net.const(np.float32(SCALES[at])), net.const(np.array(zero, dtype))]


@BYTES
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("other", [(2, 8, 5, 6), (8, 1, 1), (1,), ()])
@pytest.mark.parametrize("constant", [False, True])
def test_sums_and_products(op: str, dtype: Any, other: tuple[int, ...], constant: bool) -> None:
    net, rng = Net(), np.random.default_rng(0)
    feeds = {"a": numbers(rng, (2, 8, 5, 6), dtype), "b": numbers(rng, other, dtype)}
    a = net.input("a", (2, 8, 5, 6), dtype)
    b = net.const(feeds.pop("b")) if constant else net.input("b", other, dtype)
    net.output(net(op, a, *linear(net, dtype, 0), b, *linear(net, dtype, 1), *linear(net, dtype, 2), domain=MS),
               dtype=dtype)  # fmt: skip
    agree(net, feeds)


@BYTES
@pytest.mark.parametrize(
    "op, attrs",
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {}),
        ("QLinearLeakyRelu", {"alpha": 0.3}),
        ("QLinearSoftmax", {"opset": 13}),
        ("QLinearSoftmax", {"opset": 13, "axis": 1}),
        ("QLinearSoftmax", {"opset": 11, "axis": 1}),
        ("QLinearSoftmax", {"opset": 11, "axis": 2}),
    ],
)
def test_functions(op: str, attrs: dict[str, Any], dtype: Any) -> None:
    net = Net()
    x = net.input("x", (2, 8, 5, 6), dtype)
    give = [net.const(np.float32(1 / 256)), net.const(np.array(0 if dtype == U8 else -128, dtype))]
    net.output(net(op, x, *linear(net, dtype, 0), *give, domain=MS, **attrs), dtype=dtype)
    agree(net, {"x": numbers(np.random.default_rng(0), (2, 8, 5, 6), dtype)})


@BYTES
def test_zero_points_may_be_left_out(dtype: Any) -> None:
    """They are 0 then, and results are of the operand's type. onnxruntime ends the process over such files."""
    results = []
    for zero in ("", "given"):
        net = Net()
        x, scale, unit = net.input("x", (2, 8), dtype), net.const(np.float32(0.0213)), net.const(np.float32(1 / 255))
        zero = zero and net.const(np.array(0, dtype))
        y = net("QLinearSigmoid", x, scale, zero, unit, zero, domain=MS)
        net.output(net("QLinearAdd", y, unit, zero, x, scale, zero, scale, zero, domain=MS), dtype=dtype)
        results.append(net.load()(numbers(np.random.default_rng(0), (2, 8), dtype)))
    assert results[0].dtype == dtype and np.array_equal(*results)


@BYTES
@pytest.mark.parametrize("axis", [1, -1])
def test_concat(axis: int, dtype: Any) -> None:
    net, rng = Net(), np.random.default_rng(0)
    shapes = [(2, 8, 6), (2, 3, 6), (2, 1, 6)] if axis == 1 else [(2, 3, 1), (2, 3, 4), (2, 3, 2)]
    parts = [[net.input(name, shape, dtype), *linear(net, dtype, i)]
             for i, (name, shape) in enumerate(zip("abc", shapes, strict=True))]  # fmt: skip
    net.output(net("QLinearConcat", *linear(net, dtype, 2), *sum(parts, []), domain=MS, axis=axis), dtype=dtype)
    agree(net, {name: numbers(rng, shape, dtype) for name, shape in zip("abc", shapes, strict=True)})


@BYTES
def test_where(dtype: Any) -> None:
    net, rng = Net(), np.random.default_rng(0)
    shapes = {"c": (8, 1, 6), "a": (2, 8, 5, 6), "b": (2, 1, 5, 6)}
    c, a, b = (net.input(name, shape, bool if name == "c" else dtype) for name, shape in shapes.items())
    inputs = [c, a, *linear(net, dtype, 0), b, *linear(net, dtype, 1), *linear(net, dtype, 2)]
    net.output(net("QLinearWhere", *inputs, domain=MS), dtype=dtype)
    agree(net, {"c": rng.random(shapes["c"]) > 0.5, **{k: numbers(rng, shapes[k], dtype) for k in "ab"}})


@BYTES
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(
    "op, attrs",
    [
        ("QLinearGlobalAveragePool", {}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("QLinearAveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
        ("QLinearAveragePool", {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0], "ceil_mode": 1}),
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}),
    ],
)
def test_pools(op: str, attrs: dict[str, Any], last: int, dtype: Any) -> None:
    net = Net()
    x = net.input("x", (2, 9, 8, 7), dtype)
    y = net(op, x, *linear(net, dtype, 0), *linear(net, dtype, 1), domain=MS, channels_last=last, **attrs)
    net.output(y, dtype=dtype)
    agree(net, {"x": numbers(np.random.default_rng(0), (2, 9, 8, 7), dtype)})


WEIGHTS = pytest.mark.parametrize("dtype, stored", [(U8, U8), (U8, S8), (S8, S8)], ids=str)


def weights(net: Net, stored: Any, shape: tuple[int, ...], count: int, zeros: bool) -> list[str]:
    """Weights, and `count` scales and zero points."""
    scales = net.rng.uniform(0.002, 0.01, count or ()).astype(np.float32)
    around = net.rng.integers(-9, 9, count or ()) if zeros else np.zeros(count or (), int)
    points = (around + (128 if stored == U8 else 0)).astype(stored)
    return [net.const(numbers(net.rng, shape, stored)), net.const(scales), net.const(points)]


@WEIGHTS
@pytest.mark.parametrize("count", [0, 1, 16])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("domain, last, group", [("", 0, 1), ("", 0, 2), (MS, 0, 1), (MS, 1, 1), ("", 0, 8)])
def test_convolutions(dtype: Any, stored: Any, count: int, zeros: bool, domain: str, last: int, group: int) -> None:
    net = Net()
    shape = (1, 9, 9, 8) if last else (1, 8, 9, 9)
    inputs = [net.input("x", shape, dtype), *linear(net, dtype, 0)]
    inputs += weights(net, stored, (16, 8 // group, 3, 3), count, zeros)
    inputs += [net.const(np.float32(0.1)), net.const(np.array(3, dtype))]
    if group < 8:
        inputs.append(net.const(net.rng.integers(-999, 999, 16).astype(np.int32)))
    attrs = {"channels_last": last} if domain else {}
    y = net("QLinearConv", *inputs, domain=domain, group=group, pads=[1, 1, 1, 1], strides=[2, 1], **attrs)
    net.output(y, dtype=dtype)
    agree(net, {"x": numbers(net.rng, shape, dtype)})


@WEIGHTS
@pytest.mark.parametrize("count", [0, 10])
@pytest.mark.parametrize("zeros", [False, True])
def test_matmul(dtype: Any, stored: Any, count: int, zeros: bool) -> None:
    net = Net(opset=21)
    inputs = [net.input("x", (3, 5, 24), dtype), *linear(net, dtype, 0), *weights(net, stored, (24, 10), count, zeros)]
    net.output(net("QLinearMatMul", *inputs, net.const(np.float32(0.1)), net.const(np.array(3, dtype))), dtype=dtype)
    agree(net, {"x": numbers(net.rng, (3, 5, 24), dtype)})


@BYTES
def test_matmul_of_two_activations(dtype: Any) -> None:
    net = Net(opset=21)
    shapes = {"a": (2, 5, 24), "b": (2, 24, 7)}
    operands = [
        [net.input(name, shape, dtype), *linear(net, dtype, i)] for i, (name, shape) in enumerate(shapes.items())
    ]
    y = net("QLinearMatMul", *sum(operands, []), net.const(np.float32(0.41)), net.const(np.array(3, dtype)))
    net.output(y, dtype=dtype)
    agree(net, {name: numbers(net.rng, shape, dtype) for name, shape in shapes.items()})


@WEIGHTS
@pytest.mark.parametrize("count", [0, 10])
@pytest.mark.parametrize("attrs", [{}, {"transB": 1, "alpha": 2.0}, {"transA": 1}])
@pytest.mark.parametrize("bias, stores", [(True, True), (True, False), (False, True)])
def test_gemm(dtype: Any, stored: Any, count: int, attrs: dict[str, Any], bias: bool, stores: bool) -> None:
    net = Net()
    shape = (24, 5) if attrs.get("transA") else (5, 24)
    inputs = [net.input("x", shape, dtype), *linear(net, dtype, 0)]
    inputs += weights(net, stored, (10, 24) if attrs.get("transB") else (24, 10), count, True)
    inputs.append(net.const(net.rng.integers(-999, 999, 10).astype(np.int32)) if bias else "")
    inputs += [net.const(np.float32(0.1)), net.const(np.array(3, dtype))] if stores else []
    net.output(net("QGemm", *inputs, domain=MS, **attrs), dtype=dtype if stores else np.float32)
    agree(net, {"x": numbers(net.rng, shape, dtype)})


def test_reduce_mean_by_its_documentation() -> None:
    """onnxruntime declares the operator and has no kernel of it."""
    net = Net()
    x = net.input("x", (2, 6, 5), U8)
    y = net("QLinearReduceMean", x, *linear(net, U8, 0), *linear(net, U8, 1), domain=MS, axes=[1, -1], keepdims=0)
    net.output(y, dtype=U8)
    fed = numbers(np.random.default_rng(0), (2, 6, 5), U8)
    mean = ((fed.astype(np.float64) - 117) * SCALES[0]).mean((1, 2))
    assert np.array_equal(net.load()(fed), np.clip(np.rint(mean / SCALES[1]) + 3, 0, 255))


@BYTES
def test_bytes_are_moved_as_what_they_stand_for(dtype: Any) -> None:
    """Between two layers, operators on plain bytes: nothing is turned, and nothing is left to NumPy."""
    net = Net()
    x, first = net.input("x", (1, 8, 8, 8), dtype), linear(net, dtype, 0)
    y = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    y = net("Pad", y, net.const(np.array([0, 0, 1, 1, 0, 0, 1, 1])), first[1])
    y = net("Concat", y, y, axis=1)
    left, right = net("Split", y, net.const(np.array([12, 4])), axis=1, outputs=2)
    y = net("Concat", right, net("Transpose", left, perm=[0, 1, 3, 2]), axis=1)
    inputs = [y, *first, *weights(net, S8, (8, 16, 3, 3), 8, False), *linear(net, dtype, 2)]
    y = net("Reshape", net("QLinearConv", *inputs), net.const(np.array([1, -1])))
    net.output(net("QLinearSoftmax", y, *linear(net, dtype, 2), *linear(net, dtype, 1), domain=MS, opset=13),
               dtype=dtype)  # fmt: skip
    agree(net, {"x": numbers(net.rng, (1, 8, 8, 8), dtype)})


def test_parameters_that_are_fed() -> None:
    net = Net(opset=21)
    x, scale = net.input("x", (1, 4, 6, 6), U8), net.input("scale", ())
    inputs = [x, scale, *linear(net, U8, 0)[1:], *weights(net, S8, (8, 4, 3, 3), 8, False), *linear(net, U8, 1)]
    net.output(net("QLinearConv", *inputs), dtype=U8)
    agree(net, {"x": numbers(net.rng, (1, 4, 6, 6), U8), "scale": np.array(0.01, np.float32)})


@pytest.mark.parametrize(
    "op, count, attrs, error",
    [
        ("QLinearAdd", 6, {}, "its input 'C_scale'|expected inputs"),
        ("QLinearAdd", 7, {"axis": 1}, "expected attributes .*found 'axis'"),
        ("QLinearSoftmax", 5, {}, "its attribute 'opset' .*is required and absent"),
        ("QLinearConcat", 4, {"axis": 0}, "a scale and a zero point for each operand, found 4 inputs"),
        ("QGemm", 8, {}, "y_scale and y_zero_point together"),
    ],
)
def test_what_is_malformed_is_named(op: str, count: int, attrs: dict[str, Any], error: str) -> None:
    net = Net()
    inputs = [net.input("x", (2, 4), U8)] + [net.const(np.float32(0.1)) for _ in range(count - 1)]
    net.output(net(op, *inputs, domain=MS, **attrs), dtype=U8)
    with pytest.raises(fg.ModelError, match=error):
        net.load()
