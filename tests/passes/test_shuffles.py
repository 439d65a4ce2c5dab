"""Channels that a pixel shuffle takes apart are computed in its order, and moved together; the results are the same."""

from typing import Any

import numpy as np
import pytest

from fastgraph.ops.shape import permutation
from tests.nets import F32, Net
from tests.quantized_blocks import U8, pair


def shuffled(steps: Any = None, mode: str = "CRD", groups: int = 1) -> tuple[Net, dict[str, Any]]:
    """A convolution, what `steps` writes behind it, and a pixel shuffle."""
    net = Net()
    y = net("Conv", net.input("x", (2, 6, 5, 7)), net.weight(12, 6 // groups, 3, 3), net.weight(12), group=groups)
    y = steps(net, y) if steps else y
    net.output(net("DepthToSpace", y, blocksize=2, mode=mode))
    return net, {"x": net.rng.standard_normal((2, 6, 5, 7)).astype(F32)}


def moved_together(model: Any) -> bool:
    """Whether the channels of a pixel stay in order where they are taken apart."""
    (turn, *_) = (node for node in model.plan.graph.nodes if node.op == "transpose" and len(permutation(node)) == 6)
    return permutation(turn) == (0, 1, 3, 2, 4, 5)


@pytest.mark.parametrize("slope", [None, 0.25], ids=["bare", "chain"])
def test_channels_in_the_order_of_the_shuffle(slope: float | None) -> None:
    def steps(net: Net, y: str) -> str:
        return y if slope is None else net("PRelu", y, net.const([slope], F32))

    net, feeds = shuffled(steps)
    assert moved_together(net.agrees(feeds=feeds))


@pytest.mark.parametrize("axis", [0, 1])
def test_channels_of_bytes_with_scales_of_their_own(axis: int) -> None:
    """Of outputs, whose scales move with them, or of inputs, whose scales stay: such a layer is computed in floats."""
    net = Net()
    x = pair(net, net.input("x", (2, 6, 5, 7)), 0.0213, 120)
    stored, steps = net.rng.integers(-99, 99, (12, 6, 3, 3)), net.rng.uniform(0.002, 0.004, (12, 6)[axis])
    w = net("DequantizeLinear", stored.astype(np.int8), steps.astype(F32), axis=axis)
    y = pair(net, net("Conv", x, w, net.weight(12)), 0.0497, 128)
    net.output(pair(net, net("DepthToSpace", y, blocksize=2, mode="CRD"), 0.0497, 128))
    model = net.agrees(feeds={"x": net.rng.standard_normal((2, 6, 5, 7)).astype(F32)})
    assert moved_together(model)
    assert all((node.out.type.dtype == U8) == (axis == 0) for node in model.plan.graph.nodes if node.op == "conv")


@pytest.mark.parametrize("case", ["groups", "slope of each channel", "read elsewhere"])
def test_channels_that_must_stay(case: str) -> None:
    def steps(net: Net, y: str) -> str:
        if case == "read elsewhere":
            net.output(y)
        return net("PRelu", y, net.weight(12, 1, 1)) if case == "slope of each channel" else y

    net, feeds = shuffled(steps, groups=3 if case == "groups" else 1)
    assert not moved_together(net.agrees(feeds=feeds))


def test_blocks_that_are_together_already() -> None:
    net, feeds = shuffled(mode="DCR")
    assert moved_together(net.agrees(feeds=feeds))
