"""Chains that are walked behind blocks of a product's rows, in place of its tiles."""

import numpy as np
import pytest

import fastgraph as fg
from fastgraph.freedoms import without
from fastgraph.kernels.core.table import rows
from fastgraph.kernels.isa.tiers import BY_NAME, usable
from fastgraph.plan.program import Step
from tests.nets import Net


def network(kind: str) -> bytes:
    """An activation that no form has behind a product, and one with an operand that the result may replace."""
    net = Net()
    if kind == "matmul":
        x = net.input("x", (2, 50, 24))
        y = net("MatMul", x, net.weight(24, 70))
    else:
        x, side = net.input("x", (2, 24, 9, 11)), {"dot": 1, "conv": 5}[kind]
        y = net("Conv", x, net.weight(70, 24, side, side), net.weight(70), pads=[side // 2] * 4)
    gate = net("Mul", y, net("Sigmoid", y))
    square = net.weight(70, 70) if kind == "matmul" else net.weight(70, 70, 1, 1)
    net.output(net("Add", net("Tanh", net("MatMul" if kind == "matmul" else "Conv", gate, square)), gate))
    return net.bytes()


def later(model: fg.Model) -> int:
    """How many steps walk chains later."""
    steps = [step for step in model.plan.program.steps if isinstance(step, Step)]
    slots = [dict(zip(rows()[step.kernel.name].args, step.args, strict=True)) for step in steps]
    return sum(bool(each.get("later")) for each in slots)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("isa", [tier.name for tier in usable()])
@pytest.mark.parametrize("kind", ["matmul", "dot", "conv"])
def test_the_same_bits_later(kind: str, isa: str, threads: int) -> None:
    source = network(kind)
    model = fg.load(source, isa=isa, threads=threads)
    feeds = {"x": np.random.default_rng(0).standard_normal(model.inputs[0].shape).astype(np.float32)}
    (got,) = model.run(feeds).values()
    with without("later"):
        (want,) = fg.load(source, isa=isa, threads=threads).run(feeds).values()
    np.testing.assert_array_equal(got, want)
    assert bool(later(model)) == (BY_NAME[isa].registers < 32)
