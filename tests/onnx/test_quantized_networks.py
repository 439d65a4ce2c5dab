"""Networks that onnxruntime's quantizer wrote, against onnxruntime: no NumPy. tests/compositions draws others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.blocks import BLOCKS, conv
from tests.nets import F32, Net, by_onnxruntime
from tests.onnx.contrib import agree, hosts, numbers, statically_quantized

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
