"""Inverted residual blocks in bands of rows give what they give one node after the other."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.plan.lower import depth_first
from tests.blocks import conv
from tests.nets import F32, Net, assert_close, by_onnxruntime, feeds_for
from tests.plan.step_by_step import check_steps, poison


@pytest.fixture(autouse=True)
def small_blocks_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_first, "WORTH", 1)


def agree(net: Net) -> None:
    results = []
    for threads in (1, 2):
        model = fg.load(net.bytes(), threads=threads)
        feeds = feeds_for(model)
        poison(model.plan)
        results.append(list(model.run(feeds).values()))
        assert_close(results[-1], by_onnxruntime(net.bytes(), feeds), 1e-5)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("images", [1, 2, 7])
@pytest.mark.parametrize("budget", [1, 1 << 14, 60000, 1 << 30], ids=["single rows", "some rows", "images", "one band"])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"), [(3, 1, 1), (3, 2, 1), (5, 1, 1), (5, 2, 1), (3, 1, 2), (1, 1, 1)]
)
def test_bands(
    images: int, budget: int, kernel: int, stride: int, dilation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depth_first, "BUDGET", budget)
    net = Net()
    x = net("Relu", conv(net, net.input("x", (images, 8, 11, 9)), 8, 32, 1))
    pads = [(kernel - 1) * dilation // 2] * 4
    y = conv(net, x, 32, 32, kernel, group=32, strides=[stride] * 2, pads=pads, dilations=[dilation] * 2)
    net.output(conv(net, net("Clip", y, net.const(np.array(0, F32)), net.const(np.array(6, F32))), 32, 16, 1))
    agree(net)


@pytest.mark.parametrize("images", [1, 3, 6])
@pytest.mark.parametrize("budget", [1 << 13, 40000])
def test_a_residual_around_the_block(images: int, budget: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_first, "BUDGET", budget)
    net = Net()
    x = conv(net, net.input("x", (images, 3, 9, 9)), 3, 16, 3)
    y = conv(net, net("Relu", conv(net, x, 16, 32, 1)), 32, 32, 3, group=32)
    y = net("Add", conv(net, net("Relu", y), 32, 16, 1), x)
    net.output(net("Relu", y), y)
    agree(net)


def test_blocks_in_a_chain_share_no_node() -> None:
    """Depthwise and 1x1 in turn, as in MobileNet v1: each 1x1 could end one block or begin the next."""
    net = Net()
    x = conv(net, net.input("x", (1, 16, 8, 8)), 16, 16, 1)
    for _ in range(4):
        x = net("Relu", conv(net, net("Relu", conv(net, x, 16, 16, 3, group=16)), 16, 16, 1))
    net.output(x)
    agree(net)


def test_a_map_read_elsewhere_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    x = net("Relu", conv(net, net.input("x", (1, 16, 8, 8)), 16, 32, 1))
    y = net("Relu", conv(net, x, 32, 32, 3, group=32))
    net.output(conv(net, y, 32, 16, 1), net("GlobalAveragePool", x), net("GlobalMaxPool", y))
    agree(net)
    model = net.load()
    check_steps(model.plan, feeds_for(model), partial(assert_close, rtol=1e-5))


def test_a_value_for_each_image_leaves_several_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in squeeze and excite: rows of several images would need several of them."""
    monkeypatch.setattr(depth_first, "BUDGET", 1 << 13)
    for batch in (1, 3):
        net = Net()
        x = net.input("x", (batch, 16, 9, 9))
        y = net("Relu", conv(net, net("Relu", conv(net, x, 16, 32, 1)), 32, 32, 3, group=32))
        net.output(net("Mul", conv(net, y, 32, 16, 1), net("Sigmoid", net("GlobalAveragePool", x))))
        agree(net)


def test_multipliers_are_left_alone() -> None:
    for batch, multiplier in ((2, 2), (1, 2)):
        net = Net()
        x = net("Relu", conv(net, net.input("x", (batch, 8, 6, 6)), 8, 16, 1))
        y = net("Conv", x, net.weight(16 * multiplier, 1, 3, 3), group=16, pads=[1] * 4)
        net.output(conv(net, y, 16 * multiplier, 8, 1))
        agree(net)
