"""Blocks of transformers of random sizes, as onnxruntime's quantizers write them, against onnxruntime: no NumPy.

Rounding is coarse and what follows spreads it: a number that lies between two steps may fall to either. So results
are held against what rounding itself does to them.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import fastgraph as fg
from tests.nets import F32, Net, by_onnxruntime
from tests.onnx.contrib import MS, S8, U8, agree, dynamically_quantized, hosts, numbers, statically_quantized

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]


def gelu(net: Net, x: str) -> str:
    half = net("Mul", x, net("Add", net("Erf", net("Div", x, 2**0.5)), 1.0))
    return net("Mul", half, 0.5)


def transformer(seed: int, opset: int = 17) -> tuple[Net, list[int]]:
    """A block with norms before its parts or behind them; the shape of its input."""
    net, rng = Net(opset, seed), np.random.default_rng(seed)
    heads, size = int(rng.integers(1, 5)), int(rng.choice([5, 8, 16, 20]))
    batch, length, width = int(rng.integers(1, 3)), int(rng.choice([1, 7, 16, 33])), heads * size
    inner, before, causal = int(rng.integers(2, 5)) * width + 3, bool(rng.integers(2)), bool(rng.integers(2))
    activation = (gelu, lambda net, x: net("Relu", x), lambda net, x: net("Mul", x, net("Sigmoid", x)))[seed % 3]

    def norm(x: str) -> str:
        return net("LayerNormalization", x, rng.uniform(0.5, 2, width), net.weight(width), axis=-1)

    def layer(x: str, rows: int, columns: int) -> str:
        w = net.const((rng.standard_normal((rows, columns)) * rows**-0.5).astype(F32))
        return net("Add", net("MatMul", x, w), net.weight(columns))

    def split(x: str, perm: list[int]) -> str:
        apart = net("Reshape", x, [batch, length, heads, size])
        return net("Transpose", apart, perm=perm)

    def attention(x: str) -> str:
        perms = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        q, k, v = (split(layer(x, width, width), perm) for perm in perms)
        scores = net("Div", net("MatMul", q, k), size**0.5)
        if causal:
            scores = net("Add", scores, np.triu(np.full((length, length), -1e4), 1))
        mixed = net("Transpose", net("MatMul", net("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        return layer(net("Reshape", mixed, [batch, length, width]), width, width)

    def feed_forward(x: str) -> str:
        return layer(activation(net, layer(x, width, inner)), inner, width)

    x = net.input("x", (batch, length, width))
    for part in (attention, feed_forward):
        x = net("Add", x, part(norm(x))) if before else norm(net("Add", x, part(x)))
    net.output(x)
    return net, [batch, length, width]


def held(data: bytes, real: bytes, shape: list[int], part: float) -> None:
    """Results differ from onnxruntime's, in the mean, by no more than a part of what both differ from the f32 net's."""
    model = fg.load(data, threads=1)
    assert not hosts(model), str(model)
    for seed in range(3):
        feeds = {"x": numbers(np.random.default_rng(100 + seed), shape, F32)}
        have, (want,), (exact,) = model(feeds["x"]), by_onnxruntime(data, feeds), by_onnxruntime(real, feeds)
        off = np.abs(want - exact).mean()
        assert np.abs(have - want).mean() <= part * off + 1e-6, (np.abs(have - want).mean(), off)
        assert np.abs(have - exact).mean() <= 1.2 * off + 1e-6


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("signed", [True, False], ids=["s8", "u8"])
@pytest.mark.parametrize("per_channel", [True, False])
def test_quantize_dynamic(seed: int, signed: bool, per_channel: bool, tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantType

    net, shape = transformer(seed)
    weight_type = QuantType.QInt8 if signed else QuantType.QUInt8
    data = dynamically_quantized(net, tmp_path, weight_type=weight_type, per_channel=per_channel)
    held(data, net.bytes(), shape, 0.5)
    layers = [step.node.op for step in fg.load(data, threads=1).plan.program.steps]
    assert layers.count("dynamic_dense") and not layers.count("dense"), "all constant products round what they read"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "q.onnx"), options, providers=["CPUExecutionProvider"])
    fused = (tmp_path / "fused.onnx").read_bytes()
    assert b"DynamicQuantizeMatMul" in fused or b"MatMulIntegerToFloat" in fused
    held(fused, net.bytes(), shape, 0.5)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("activations", ["QUInt8", "QInt8", "QUInt16", "QInt16"])
def test_quantize_static(seed: int, activations: str, tmp_path: Path) -> None:
    net, shape = transformer(seed, 21)

    data = statically_quantized(net, shape, tmp_path, activations, per_channel=seed % 2 == 0)
    held(data, net.bytes(), shape, 0.5)


@pytest.mark.parametrize("stored, zero", [(S8, 0), (U8, 128), (U8, 117)])
def test_attention_of_what_is_rounded_in_the_run(stored: Any, zero: int) -> None:
    net, (batch, length, width) = Net(), (2, 9, 24)
    q, scale, point = net("DynamicQuantizeLinear", net.input("x", (batch, length, width)), outputs=3)
    inputs = [q, net.const(numbers(net.rng, (width, 3 * width), stored)), net.weight(3 * width), scale]
    inputs += [net.const(np.float32(0.004)), "", point, net.const(np.array(zero, stored))]
    net.output(net("QAttention", *inputs, domain=MS, num_heads=3))
    agree(net, {"x": numbers(net.rng, (batch, length, width), F32)}, rtol=1e-4)
    assert "dynamic_dense" in {step.node.op for step in net.load().plan.program.steps}
