"""Pixels whose bf16 are lines of equal length on AMX tiles, in all layers that tiles multiply."""

from collections.abc import Callable

import numpy as np
import pytest

import fastgraph as fg
from tests.amx_trap import AMX, loads_amx
from tests.kernels.test_amx_real import needs_bf16
from tests.nets import Net, assert_close, by_onnxruntime, feeds_for

Build = Callable[[Net, int], str]


def normal(net: Net, *shape: int) -> str:
    size = np.sqrt(np.prod(shape[1:]))
    return str(net.const((net.rng.standard_normal(shape) / size).astype(np.float32)))


def recurrent(net: Net, c: int) -> str:
    return str(net("LSTM", net.input("x", (70, 2, c)), normal(net, 1, 128, c), normal(net, 1, 128, 32), hidden_size=32))


def transposed(net: Net, c: int) -> str:
    return str(net("ConvTranspose", net.input("x", (1, c, 13, 13)), normal(net, c, 24, 3, 3), strides=[2, 2]))


def open_weights(net: Net, c: int) -> str:
    w = net("Mul", net.input("w", (32, c, 3, 3)), 0.1)
    return str(net("Conv", net.input("x", (1, c, 20, 20)), w, pads=[1, 1, 1, 1]))


def in_groups(net: Net, c: int) -> str:
    x = net("Relu", net.input("x", (1, 2 * c, 17, 17)))
    return str(net("Conv", x, normal(net, 2 * c, c, 3, 3), group=2, pads=[1, 1, 1, 1]))


def in_a_row(net: Net, c: int) -> str:
    """A dilated window, one of a pixel, one with a stride."""
    y = net("Conv", net.input("x", (2, c, 20, 20)), normal(net, 32, c, 3, 3), pads=[2] * 4, dilations=[2, 2])
    y = net("Conv", net("Relu", y), normal(net, c, 32, 1, 1))
    y = net("Conv", net("Conv", y, normal(net, c, c, 1, 1)), normal(net, 40, c, 3, 3), pads=[1] * 4, strides=[2, 2])
    return str(y)


@loads_amx
@needs_bf16
@pytest.mark.parametrize("build", [recurrent, transposed, open_weights, in_groups, in_a_row])
@pytest.mark.parametrize("c", [40, 72, 120, 176])
def test_layers(build: Build, c: int) -> None:
    net = Net()
    net.output(build(net, c))
    models = [fg.load(net.bytes(), threads=n, precision="bfloat16", isa=AMX.name) for n in (1, 2, 3)]
    assert "amx_real" in {kernel.name for kernel in models[0].plan.program.kernels()}
    feeds = feeds_for(models[0])
    (one,), *others = [list(model.run(feeds).values()) for model in models]
    assert_close([one], by_onnxruntime(net.bytes(), feeds), 3e-2)
    assert all(np.array_equal(one, other) for (other,) in others)
