"""NaN and infinity among the weights of a convolution reach the same results on any number of threads."""

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import Net


def fed(net: Net, *weights: np.ndarray) -> dict[str, np.ndarray]:
    """What is fed to `net`, ones: its map, and weights where it has an input for them."""
    shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in net.inputs]
    ones = {i.name: np.ones(shape, np.float32) for i, shape in zip(net.inputs, shapes, strict=True)}
    return ones | {i.name: w for i, w in zip(net.inputs[1:], weights, strict=False)}


def with_one(x: float, *shape: int, at: int) -> np.ndarray:
    weights = np.ones(shape, np.float32)
    weights.flat[at] = x
    return weights


def same_on_threads(net: Net, *weights: np.ndarray) -> None:
    net.output(net.nodes[-1].output[0])
    first, *others = (fg.load(net.bytes(), threads=t).run(fed(net, *weights)) for t in (1, 2, 3))
    for name, y in first.items():
        assert np.isnan(y).any()
        for other in others:
            np.testing.assert_array_equal(other[name], y)


@pytest.mark.parametrize("x", [np.nan, np.inf])
@pytest.mark.parametrize("opened", [False, True], ids=["constant", "fed"])
def test_convolution(x: float, opened: bool) -> None:
    """Of maps so narrow that tiles hold outputs of several rows, and threads have other ones."""
    for images, side, size, strides, pads in ((2, 5, (2, 5), (2, 1), (1, 2)), (1, 9, (2, 3), (1, 2), (1, 1))):
        for at in (0, 3):
            net, weights = Net(), with_one(x, 4, 1, *size, at=at)
            maps = net.input("x", (images, 1, side, side))
            w = net.input("w", weights.shape) if opened else net.const(weights)
            net("Conv", maps, w, strides=strides, pads=pads * 2)
            same_on_threads(net, weights)


@pytest.mark.parametrize("x", [np.nan, np.inf])
def test_transposed_convolution(x: float) -> None:
    net = Net()
    net("ConvTranspose", net.input("x", (1, 3, 3, 5)), with_one(x, 3, 16, 3, 3, at=0))
    same_on_threads(net)
