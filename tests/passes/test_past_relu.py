"""Single numbers behind a ReLU, which become part of the layer before it, and those that can't."""

import numpy as np
import pytest

from tests.nets import F32, Net, assert_close, by_onnxruntime


@pytest.mark.parametrize(("op", "number"), [("Mul", np.inf), ("Div", 0.0)])
def test_infinite_factors_stay_behind_the_sum(op: str, number: float) -> None:
    net = Net()
    y = net("MatMul", net.input("x", (4, 7)), net.weight(7, 3))
    net.output(net("Sigmoid", net(op, y, np.float32([number, 1, 2]))))
    feeds = {"x": net.rng.standard_normal((4, 7)).astype(F32)}
    net.agrees(feeds=feeds)


@pytest.mark.parametrize(
    ("steps", "chain"),
    [
        ([("Mul", 1.5), ("Add", -0.25)], (("max", 0, -0.25),)),
        ([("Sub", 0.5), ("Div", 2.0)], (("max", 0, -0.5), ("div", 1, 2.0))),
        ([("Div", 4.0)], (("relu", 0),)),
        ([("Mul", -1.5)], (("relu", 0), ("mul", 1, -1.5))),
        ([("Mul", 0.0)], (("relu", 0), ("mul", 1, 0.0))),
        ([("Add", np.inf)], (("relu", 0), ("add", 1, np.inf))),
    ],
)
@pytest.mark.parametrize("kind", ["Conv", "MatMul"])
def test_it_goes_before_the_relu(kind: str, steps: list[tuple[str, float]], chain: tuple[object, ...]) -> None:
    net = Net()
    x = net.input("x", (2, 5, 6, 7))
    y = net("Conv", x, net.weight(4, 5, 3, 3), net.weight(4)) if kind == "Conv" else net("MatMul", x, net.weight(7, 3))
    y = net("Relu", y)
    for op, number in steps:
        y = net(op, y, np.float32(number))
    net.output(y)
    model = net.load()
    (layer,) = (node for node in model.plan.graph.nodes if node.op in ("conv", "dense"))
    assert layer.attrs["chain"] == chain
    feeds = {"x": net.rng.standard_normal((2, 5, 6, 7)).astype(F32)}
    assert_close(list(model.run(feeds).values()), by_onnxruntime(net.bytes(), feeds))
