"""Convolutions of few channels read them as slices of a volume; the results are onnxruntime's."""

from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.isa import tiers
from tests.nets import Net

ISAS = [tier.name for tier in tiers.usable()]


def stem(c: int = 3, n: int = 16, size: int = 3, side: int = 21, images: int = 1, **attrs: Any) -> Net:
    net = Net()
    attrs = {"strides": [2, 2], "pads": [size // 2] * 4, **attrs}
    x = net.input("x", (images, c, side, side + 9))
    y = net("Conv", x, net.weight(n, c // attrs.get("group", 1), size, size), net.weight(n), **attrs)
    net.output(net("Relu", y))
    return net


def reads_slices(model: Any) -> bool:
    conv = next(node for node in model.plan.graph.nodes if node.op == "conv")
    return len(conv.x.type.dims) == 5


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    "net",
    [
        stem(),
        stem(2, 8, 5, images=3),
        stem(4, 40),
        stem(3, 16, 7, pads=[1, 5, 0, 2]),
        stem(3, 24, strides=[1, 1]),
        stem(3, 8, dilations=[2, 3], strides=[1, 2], side=40),
        stem(3, 20, 4, pads=[0] * 4, strides=[4, 4], side=35),
        stem(3, 16, side=230),
    ],
    ids=["3x3/2", "5x5/2, images", "4 channels", "7x7/2, uneven", "3x3", "dilated", "patches", "bands"],
)
def test_few_channels_are_slices(net: Net, isa: str) -> None:
    assert reads_slices(net.agrees(isa=isa))


def test_threads_give_the_same_bits() -> None:
    for net in (stem(side=100), stem(4, 32, 5, 60, images=2)):
        net.agrees_on_threads(counts=(1, 2, 5))


@pytest.mark.parametrize(
    "net",
    [stem(5), stem(3, 64, 7), stem(4, 32, 5), stem(4, 8, group=2), stem(1), stem(3, 48, strides=[1, 1])],
    ids=["5 channels", "7x7/2", "5x5/2 of 4", "groups", "one channel", "3x3 into 48"],
)
def test_what_is_read_with_channels_last(net: Net) -> None:
    assert not reads_slices(net.agrees())


@pytest.mark.parametrize("added", [False, True])
def test_a_map_that_others_read_or_that_is_added_to(added: bool) -> None:
    net = Net()
    x = net.input("x", (1, 3, 20, 24))
    y = net("Conv", x, net.weight(16, 3, 3, 3), pads=[1] * 4)
    if added:
        y = net("Add", y, net.input("z", (1, 16, 20, 24)))
    else:
        net.output(net("Conv", x, net.weight(16, 3, 3, 3), strides=[2, 2]))
    net.output(y)
    assert not reads_slices(net.agrees())


def test_other_layers_beside_such_keep_their_transpose() -> None:
    """Few outputs of many channels, each of which would be a slice."""
    net = Net()
    for name, c in (("x", 3), ("y", 40)):
        x = net.input(name, (1, c, 21, 30))
        net.output(net("Conv", x, net.weight(8, c, 3, 3), strides=[2, 2], pads=[1] * 4))
    convs = [node for node in net.agrees().plan.graph.nodes if node.op == "conv"]
    assert [len(node.x.type.dims) for node in convs] == [5, 4]


def test_products_of_bf16_take_tiles() -> None:
    assert not reads_slices(stem(3, 16).load(precision="bfloat16"))


def drawn(seed: int) -> Net:
    """A convolution of few channels of any sizes, and what follows it."""
    rng = np.random.default_rng(seed)
    net, c, n = Net(), int(rng.integers(2, 5)), int(rng.integers(1, 50))
    kernel, pads = rng.integers(1, 8, 2), [int(p) for p in rng.integers(0, 4, 4)]
    steps = {name: [int(v) for v in rng.integers(1, 4, 2)] for name in ("strides", "dilations")}
    size = (int(rng.integers(1, 4)), c, int(rng.integers(22, 60)), int(rng.integers(22, 90)))
    y = net("Conv", net.input("x", size), net.weight(n, c, *map(int, kernel)), net.weight(n), pads=pads, **steps)
    if rng.random() < 0.7:
        y = net(str(rng.choice(["Relu", "HardSwish", "Sigmoid", "Tanh"])), y)
    if rng.random() < 0.5:
        y = net("Conv", y, net.weight(8, n, 1, 1))
    net.output(y)
    return net


@pytest.mark.parametrize("seed", range(30))
def test_random_layers_are_those_without_the_rule(seed: int) -> None:
    """By tiers in turn, on one to three threads; sums are added in another order."""
    drawn(seed).agrees_without("channel_slices", 1e-5, isa=ISAS[seed % len(ISAS)])


def test_random_layers_reach_the_rule() -> None:
    assert sum(reads_slices(drawn(seed).load()) for seed in range(30)) >= 10
