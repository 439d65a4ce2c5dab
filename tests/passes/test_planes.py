"""Pools between transposes are those of single planes; the results are onnxruntime's."""

from typing import Any

import numpy as np
import pytest

from fastgraph.freedoms import without
from fastgraph.kernels.isa import tiers
from tests.nets import Net

ISAS = [tier.name for tier in tiers.usable()]


def pools(count: int, width: int, op: str = "MaxPool", size: int = 3, **attrs: Any) -> Net:
    net = Net()
    y = net.input("x", (2, 5, 9, width))
    for _ in range(count):
        y = net(op, y, **{"kernel_shape": [size, size], "pads": [(size - 1) // 2] * 2 + [size // 2] * 2, **attrs})
    net.output(y)
    return net


def ops(model: Any) -> list[str]:
    return [node.op for node in model.plan.graph.nodes if node.op != "reshape"]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize(
    ("op", "attrs"), [("MaxPool", {}), ("AveragePool", {}), ("AveragePool", {"count_include_pad": 1})]
)
def test_pools_of_planes(op: str, attrs: dict[str, Any], size: int, isa: str) -> None:
    for width in (16 if op == "MaxPool" else 32, 37):
        model = pools(2, width, op, size, **attrs).agrees(isa=isa)
        assert ops(model) == [node for node in ("max_pool", "average_pool") if node.startswith(op[:3].lower())] * 2


def test_threads_give_the_same_bits() -> None:
    pools(2, 32, "AveragePool").agrees_on_threads()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("channels", [1, 17, 33])
def test_slices_of_one_channel_give_the_same_bits(channels: int, isa: str) -> None:
    """One thread pools some channels at a time, of which one may be left; several pool all of them."""
    net = Net()
    y = net("MaxPool", net.input("x", (5, channels, 5, 62)), kernel_shape=[2, 2], pads=[1] * 4, strides=[2, 1])
    for size in (5, 3):
        y = net("AveragePool", y, kernel_shape=[size, size], pads=[size // 2] * 4)
    net.output(y)
    net.agrees_on_threads(counts=(1, 2, 5), isa=isa)


@pytest.mark.parametrize(
    "net",
    [
        pools(4, 20, "AveragePool"),
        pools(2, 12),
        pools(1, 7),
        pools(1, 32, strides=[2, 2]),
        pools(1, 32, dilations=[2, 2]),
        pools(1, 32, size=4),
    ],
    ids=["many of 20 columns", "two of 12", "narrow", "strides", "dilations", "windows without a body"],
)
def test_what_is_faster_with_channels_last(net: Net) -> None:
    assert "transpose" in ops(net.agrees())


@pytest.mark.skipif(tiers.choose().lanes != 8, reason="figures of AVX2")
def test_figures_are_the_tier_s() -> None:
    assert ops(pools(4, 52).load()) == ["max_pool"] * 4
    assert "transpose" in ops(pools(4, 52).load(isa="generic"))


def test_maps_of_one_channel() -> None:
    """Pixels are in lanes for windows of any kind, but not where a chain follows the pool."""
    kinds: list[dict[str, Any]] = [{"kernel_shape": [3, 4], "strides": [2, 1]}, {"kernel_shape": [2, 9]}]
    for attrs in (*kinds, {"kernel_shape": [3, 3]}):
        net = Net()
        y = net("MaxPool", net.input("x", (3, 1, 20, 30)), **attrs)
        net.output(y)
        net.output(net("Relu", net("AveragePool", y, kernel_shape=[2, 2])))
        net.agrees()


def test_numbers_that_are_no_numbers() -> None:
    net, x = pools(1, 16), np.zeros((2, 5, 9, 16), np.float32)
    x[0, 0, 3], x[1, 2, 4, 5], x[1, 4] = np.nan, np.inf, -np.inf
    found = net.load().run({"x": x})
    expected = net.load(isa="numpy").run({"x": x})
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name])


def drawn(seed: int) -> Net:
    """One to three pools in a row of any sizes, strides, pads and maps, behind and before layers or not."""
    rng = np.random.default_rng(seed)
    net, channels = Net(), int(rng.choice([1, 3, 16, 17, 33]))
    y = net.input("x", (int(rng.integers(1, 4)), channels, int(rng.integers(6, 20)), int(rng.integers(6, 70))))
    if rng.random() < 0.3:
        y = net("Relu", y)
    for i in range(int(rng.integers(1, 4))):
        if i and rng.random() < 0.2:
            net.output(y)
        size, stride = int(rng.choice([2, 3, 5])), int(rng.random() < 0.2) + 1
        op = str(rng.choice(["MaxPool", "AveragePool"]))
        attrs = {"count_include_pad": int(rng.integers(2))} if op == "AveragePool" else {}
        pads = [int(rng.integers((size + 1) // 2, size)) for _ in range(4)]
        y = net(op, y, kernel_shape=[size] * 2, strides=[stride] * 2, pads=pads, **attrs)
    net.output(net("Sigmoid", y) if rng.random() < 0.3 else y)
    return net


@pytest.mark.parametrize("seed", range(30))
def test_random_pools_are_those_without_the_rule(seed: int) -> None:
    """By tiers in turn, on one to three threads; sums of means are added in another order."""
    drawn(seed).agrees_without("planes", 1e-5, isa=ISAS[seed % len(ISAS)])


def test_random_pools_reach_the_rule() -> None:
    turned = ["transpose" not in ops(drawn(seed).load()) for seed in range(30)]
    with without("planes"):
        last = ["transpose" not in ops(drawn(seed).load()) for seed in range(30)]
    assert sum(turned) >= sum(last) + 8
