"""Operands that were expanded for an elementwise operator, which repeats them itself."""

from collections.abc import Callable

import numpy as np
import pytest

from fastgraph import freedoms
from tests.nets import F32, Net, assert_close, by_onnxruntime

SHAPE = (2, 3, 5, 7)


def normalized(net: Net, x: str) -> str:
    """As torch's `normalize` is written: the norm is expanded to the shape of what it divides."""
    norm = net("Clip", net("ReduceL2", x, axes=[-1], keepdims=1), 1e-12)
    return str(net("Div", x, net("Expand", norm, net("Shape", x))))


def row(net: Net, x: str) -> str:
    """A row of fewer axes."""
    return str(net("Sub", net("Expand", net.input("row", (7,)), SHAPE), x))


def chosen(net: Net, x: str) -> str:
    return str(net("Where", net("Less", x, 0.0), net("Expand", x, net("Shape", x)), x))


def both(net: Net, x: str) -> str:
    """Neither has the shape of the result without its expansion, and together they have."""
    a, b = net.input("a", (2, 1, 5, 1)), net.input("b", (1, 3, 1, 7))
    whole = net.const(np.array(SHAPE))
    return str(net("Add", x, net("Mul", net("Expand", a, whole), net("Expand", b, whole))))


def needed(net: Net, x: str) -> str:
    """The result is as large as the expansion makes it: it stays."""
    small = net.input("a", (2, 1, 5, 1))
    return str(net("Add", x, net("Mul", net("Expand", small, SHAPE), 2.0)))


@pytest.mark.parametrize(("build", "left"), [(normalized, 0), (row, 0), (chosen, 0), (both, 0), (needed, None)])
def test_no_operand_is_expanded_in_vain(build: Callable[[Net, str], str], left: int | None) -> None:
    net = Net()
    net.output(build(net, net.input("x", SHAPE)))
    model = net.load()
    shapes = {each.name: each.shape for each in model.inputs}
    feeds = {name: net.rng.standard_normal(shape).astype(F32) for name, shape in shapes.items()}
    got = list(model.run(feeds).values())
    assert_close(got, by_onnxruntime(net.bytes(), feeds), 1e-6)
    if left is not None:
        assert [step.node.op for step in model.plan.program.steps].count("expand") == left
    with freedoms.without("spread_operand"):
        assert_close(list(net.load().run(feeds).values()), got, 0)
