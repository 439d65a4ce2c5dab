"""GELU that a file spells out becomes one step, and only GELU."""

import math

import numpy as np
import pytest

from fastgraph.freedoms import without
from tests.nets import Net


def formula(net: Net, x: str, factor: float, one: float, half: float) -> str:
    """x * (one + erf(factor * x)) * half."""
    share = net("Add", net("Erf", net("Mul", x, np.float32(factor))), np.float32(one))
    return net("Mul", net("Mul", x, share), np.float32(half))


def steps(net: Net) -> set[str]:
    """Names in the chains of the graph that runs; results are onnxruntime's."""
    plan = net.agrees().plan
    return {name for node in plan.graph.nodes for name, *_ in node.attrs.get("chain", ())}


@pytest.mark.parametrize("factor, one, half, same", [
    (math.sqrt(0.5), 1, 0.5, True), (0.7071, 1, 0.5, False), (math.sqrt(0.5), 1.0001, 0.5, False),
    (math.sqrt(0.5), 1, 0.4999, False), (-math.sqrt(0.5), 1, 0.5, False), (math.sqrt(0.5), 1, 1, False),
])  # fmt: skip
def test_what_is_gelu_and_what_is_near_it(factor: float, one: float, half: float, same: bool) -> None:
    net = Net()
    net.output(formula(net, net("MatMul", net.input("x", (40, 16)), net.weight(16, 24)), factor, one, half))
    found = steps(net)
    assert ("gelu" in found) == same and ("erf" in found) != same
    with without("activations"):
        assert steps(net) >= {"erf"}


def test_inner_values_with_other_readers_stay() -> None:
    net = Net()
    x = net("MatMul", net.input("x", (40, 16)), net.weight(16, 24))
    scaled = net("Mul", x, np.float32(math.sqrt(0.5)))
    share = net("Add", net("Erf", scaled), 1.0)
    net.output(net("Mul", net("Mul", x, share), 0.5), share)
    net.agrees()
