"""Products of few rows by stored bytes that nothing multiplies as integers: the bytes are what is read."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.circle.write import Model, litert
from tests.nets import F32, Net, numpy_steps

S8, U8, S16 = np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.int16)


def kernels(model: fg.Model) -> set[str]:
    assert not numpy_steps(model), str(model.plan)
    return {kernel.name for kernel in model.plan.kernels()}


@pytest.mark.parametrize("stored", [S8, U8], ids=str)
@pytest.mark.parametrize("channels", [True, False])
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("form", ["matmul", "transposed", "gemm"])
@pytest.mark.parametrize("rows, k, few", [(1, 300, True), (8, 300, True), (9, 300, False), (1, 302, False)])
def test_reals_of_bytes(stored: Any, channels: bool, zeros: bool, form: str, rows: int, k: int, few: bool) -> None:
    net, n = Net(21), 230
    limits, count = np.iinfo(stored), n if channels else 1
    w = net.rng.integers(limits.min, limits.max, (n, k) if form == "transposed" else (k, n), stored, True)
    shape = (n,) if channels else ()
    scale = net.rng.uniform(0.001, 0.02, shape).astype(F32)
    points = net.rng.integers(limits.min, limits.max, shape).astype(stored) if zeros else np.zeros(shape, stored)
    axis = {"axis": 0 if form == "transposed" else 1} if count > 1 else {}
    real = net("DequantizeLinear", w, scale, points, **axis)
    x = net.input("x", (rows, k))
    real = net("Transpose", real, perm=[1, 0]) if form == "transposed" else real
    y = net("Gemm", x, real, net.weight(n)) if form == "gemm" else net("MatMul", x, real)
    net.output(net("Relu", y))
    feeds = {"x": net.rng.standard_normal((rows, k)).astype(F32)}
    model = net.agrees(1e-5, feeds=feeds)
    assert ("dot_blocks" in kernels(model)) == few


def test_few_weights_are_reals() -> None:
    net = Net(21)
    w = net.const(net.rng.integers(-128, 127, (64, 64), S8))
    net.output(net("MatMul", net.input("x", (1, 64)), net("DequantizeLinear", w, 0.1, net.const(0, S8))))
    assert "dot_blocks" not in kernels(net.load())


@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="needs LiteRT")
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize("clamp", ["NONE", "RELU"])
@pytest.mark.parametrize("channels", [True, False])
def test_words_times_bytes(rows: int, clamp: str, channels: bool) -> None:
    m, rng, (n, k) = Model(), np.random.default_rng(rows), (256, 320)
    scales = rng.uniform(0.005, 0.01, n if channels else 1).astype(F32)
    quant = (scales.tolist(), [0] * n, 0) if channels else (float(scales[0]), 0)
    units = ((scales * 1e-3).tolist(), [0] * n, 0) if channels else (float(scales[0]) * 1e-3, 0)
    x = m.input((rows, k), S16, (1e-3, 0))
    w = m.const(rng.integers(-127, 128, (n, k)).astype(S8), quant)
    b = m.const(rng.integers(-90000, 90000, n), units)
    out = ((rows, n), S16, (0.02, 0))
    data = m.bytes(m.op("FULLY_CONNECTED", [x, w, b], [out], version=7, fused_activation_function=clamp))
    fed = rng.integers(-32768, 32767, (rows, k), endpoint=True).astype(S16)
    ((wanted,),), model = litert(data, [[fed]]), fg.load(data, threads=1)
    apart = np.abs(model(fed).astype(int) - wanted)
    assert apart.max() <= 1 and (apart > 0).mean() < 0.01
    assert "dot_blocks" in kernels(model)
