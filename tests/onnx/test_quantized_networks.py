"""Networks that onnxruntime's quantizer wrote, and random ones of its operators, against onnxruntime: no NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.blocks import BLOCKS, conv
from tests.nets import F32, Net, by_onnxruntime
from tests.onnx.contrib import MS, S8, U8, agree, hosts, numbers, statically_quantized
from tests.onnx.test_contrib import SCALES

NETWORKS = ("residual", "inverted_residual", "squeeze_excite", "concat_of_branches", "classifier", "computed_shape")


def steps_apart(have: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How many quanta, which are told by what onnxruntime gives, lie between results."""
    levels = np.unique(want)
    return np.abs(have - want) / np.diff(levels).min()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("form", ["QOperator", "QDQ"])
@pytest.mark.parametrize("signed, per_channel", [(False, False), (False, True), (True, True)])
def test_networks_of_quantize_static(name: str, form: str, signed: bool, per_channel: bool, tmp_path: Path) -> None:
    """onnxruntime rounds what f32 arithmetic makes of a number, this rounds the number: steps agree, but for ties, of
    which the layers that follow make one step or two.
    """
    net = Net()
    BLOCKS[name](net)
    shape = [d.dim_value for d in net.inputs[0].type.tensor_type.shape.dim]
    activations = "QInt8" if signed else "QUInt8"
    data = statically_quantized(net, shape, tmp_path, activations, form, per_channel=per_channel)
    assert (b"QLinear" in data or b"QGemm" in data) == (form == "QOperator")
    model = fg.load(data, threads=1)
    assert not hosts(model)
    for seed in range(3):
        feeds = {"x": numbers(np.random.default_rng(100 + seed), shape, F32)}
        (want,) = by_onnxruntime(data, feeds)
        apart = steps_apart(model(feeds["x"]), want)
        assert apart.max() < 2.01 and (apart > 0.01).mean() <= 0.05, (apart.max(), (apart > 0.01).mean())


class Linear:
    """A network of operators on integers, drawn one after the other. Values are (name, channels, scale, zero point)."""

    def __init__(self, seed: int) -> None:
        self.net, self.rng = Net(seed=seed), np.random.default_rng(seed)
        self.dtype = (U8, S8)[seed % 2]
        self.size = int(self.rng.integers(4, 9))
        self.values = [self.begin()]

    def linear(self) -> list[str]:
        scale = float(self.rng.choice(SCALES) * self.rng.uniform(0.7, 1.4))
        zero = int(self.rng.integers(90, 160)) - (128 if self.dtype == S8 else 0)
        return [self.net.const(np.float32(scale)), self.net.const(np.array(zero, self.dtype))]

    def begin(self) -> tuple[str, int, list[str]]:
        take, channels = self.linear(), int(self.rng.integers(3, 20))
        x = self.net.input("x", (1, channels, self.size, self.size))
        return self.net("QuantizeLinear", x, *take), channels, take

    def draw(self) -> tuple[str, int, list[str]]:
        x, c, take = self.values[self.rng.integers(max(0, len(self.values) - 3), len(self.values))]
        like = [v for v in self.values if v[1] == c]
        other, _, beside = like[self.rng.integers(len(like))]
        give, net = self.linear(), self.net
        match self.rng.integers(9):
            case 0 | 1 | 2:
                return self.conv(x, c, take, give)
            case 3:
                return net("QLinearAdd", x, *take, other, *beside, *give, domain=MS), c, give
            case 4:
                return net("QLinearMul", x, *take, other, *beside, *give, domain=MS), c, give
            case 5:
                return net("QLinearConcat", *give, x, *take, other, *beside, axis=1, domain=MS), 2 * c, give
            case 6:
                return net("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4), c, take
            case 7:
                y = net("QLinearAveragePool", x, *take, *give, kernel_shape=[3, 3], pads=[1] * 4, domain=MS)
                return y, c, give
        name = str(self.rng.choice(["QLinearSigmoid", "QLinearLeakyRelu"]))
        return net(name, x, *take, *give, domain=MS), c, give

    def conv(self, x: str, c: int, take: list[str], give: list[str]) -> tuple[str, int, list[str]]:
        net, rng, k = self.net, self.rng, int(self.rng.choice([1, 3]))
        group = int(rng.choice([1, c]))
        o = c if group > 1 else int(rng.integers(3, 20))
        count = int(rng.choice([0, o]))
        w = net.const(numbers(rng, (o, c // group, k, k), S8))
        scale = net.const((rng.uniform(0.5, 1, count or ()) / (20 * k * np.sqrt(c / group))).astype(F32))
        zero = net.const(np.zeros(count or (), S8))
        bias = net.const(rng.integers(-500, 500, o).astype(np.int32))
        return net("QLinearConv", x, *take, w, scale, zero, *give, bias, group=group, pads=[k // 2] * 4), o, give


@pytest.mark.parametrize("seed", range(24))
def test_random_networks_on_integers(seed: int) -> None:
    """One operator after the other, each may be a step off: what follows carries it on, as far as it is steep."""
    drawn = Linear(seed)
    for _ in range(8):
        drawn.values.append(drawn.draw())
    net = drawn.net
    for name, _, _ in drawn.values[-3:]:
        net.output(name, dtype=drawn.dtype)
    model = net.load()
    assert not hosts(model)
    feeds = {"x": 3 * numbers(net.rng, model.inputs[0].shape, F32)}
    for have, want in zip(model.run(feeds).values(), by_onnxruntime(net.bytes(), feeds), strict=True):
        apart = np.abs(have.astype(int) - want.astype(int))
        assert apart.max() <= 3 and (apart > 0).mean() < 0.02, (apart.max(), (apart > 0).mean())


@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_activations_of_sixteen_bits(dtype: Any) -> None:
    """Stored in 16 bits between layers that compute in f32."""
    net = Net(opset=21)

    def pair(x: str, scale: float, zero: int) -> str:
        linear = [net.const(np.float32(scale)), net.const(np.array(zero, dtype))]
        return net("DequantizeLinear", net("QuantizeLinear", x, *linear), *linear)

    zero = 32000 if dtype == np.uint16 else 7
    x = pair(net.input("x", (1, 4, 8, 8)), 0.00031, zero)
    y = pair(net("Relu", conv(net, x, 4, 4)), 0.00047, zero)
    net.output(pair(net("Add", y, x), 0.00053, zero))
    agree(net, {"x": numbers(net.rng, (1, 4, 8, 8), F32)}, rtol=1e-4)
