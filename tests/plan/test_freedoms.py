"""Each freedom that a plan has can be taken from it: the plan is another one, and gives the same."""

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.freedoms import free, thresholds, without
from fastgraph.kernels.isa.tiers import multiplies_small, usable
from fastgraph.passes.stages import STAGES
from tests.blocks import conv
from tests.nets import Net, assert_close, by_onnxruntime, feeds_for


def network() -> Net:
    """With a use for every freedom but the rewriting of quantized nodes."""
    net = Net()
    x = net("Relu", conv(net, net.input("x", (1, 16, 24, 24)), 16, 32, 1))
    y = conv(net, net("Relu", conv(net, x, 32, 32, 3, group=32)), 32, 64, 1)
    z = net("Concat", conv(net, y, 64, 64, 3), net("Softmax", y, axis=1), axis=1)
    net.output(net("Add", net("Sigmoid", z), net("GlobalAveragePool", z)))
    return net


FREEDOMS = ("bands", "winograd", "views", "in_place", "reuse", "layout", "fuse", "as_chain", "sink")


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_a_plan_without(freedom: str) -> None:
    source = network().bytes()
    with thresholds(bands_worth=1):
        usual = fg.load(source, threads=1)
        with without(freedom):
            other = fg.load(source, threads=1)
    assert str(other.plan) != str(usual.plan)
    feeds = feeds_for(usual)
    assert_close(list(other.run(feeds).values()), by_onnxruntime(source, feeds), 1e-5)


@pytest.mark.parametrize("rows", [1, 9])
def test_products_of_words_are_not_summed_in_16_bits_without(rows: int) -> None:
    """Where any tier does so: some weights are the greatest there are, and x is all 255."""
    net, scale, zero = Net(), np.array(0.5, np.float32), np.array(0, np.uint8)
    weights = np.random.default_rng(0).integers(-40, 41, (37, 24)).astype(np.int8)
    weights[5, 7], weights[11:13, 3] = -128, 127
    x = net("DequantizeLinear", net.input("x", (rows, 37), np.uint8), scale, zero)
    w = net("DequantizeLinear", weights, scale, np.array(0, np.int8))
    y = net("QuantizeLinear", net("MatMul", x, w), 99.0, zero)
    net.output(y, dtype=np.uint8)
    full = np.full((rows, 37), 255, np.uint8)
    for tier in usable():
        usual = net.load(isa=tier.name)
        with without("together"):
            other = net.load(isa=tier.name)
        assert (str(other.plan) != str(usual.plan)) == multiplies_small(tier)
        np.testing.assert_array_equal(other(full), usual(full))


def test_freedoms_come_back() -> None:
    with without("bands"):
        with without("views"):
            assert not free("bands") and not free("views") and free("fuse")
        assert not free("bands") and free("views")
    assert free("bands") and set(FREEDOMS) & {name for name, _ in STAGES}


def test_a_pad_of_stored_numbers_is_0_without_the_rule_that_stores_its_constant() -> None:
    net, scale, zero = Net(), np.array(0.5, np.float32), np.array(131, np.uint8)
    grid = [net.const(scale), net.const(zero)]
    x = net("DequantizeLinear", net("QuantizeLinear", net.input("x", (1, 2)), *grid), *grid)
    y = net("Pad", x, [0, 1, 0, 0])
    net.output(net("DequantizeLinear", net("QuantizeLinear", y, *grid), *grid))
    for freedom in ((), ("padded",)):
        with without(*freedom):
            assert net.load()(np.array([[3, -2]], np.float32)).tolist() == [[0, 3, -2]]
