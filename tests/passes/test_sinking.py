"""Transposes sink through operators by their layouts, and vanish where they meet their inverse."""

from typing import Any

import numpy as np
import pytest

from tests.nets import F32, Net

SHAPE = (2, 3, 4, 5)


OPERATORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Softmax": ((), {"axis": 1}), "LogSoftmax": ((), {"axis": 1}), "Hardmax": ((), {"axis": -2}),
    "LpNormalization": ((), {"axis": 1, "p": 2}), "CumSum": ((np.array(1),), {"reverse": 1}),
    "TopK": ((np.array([2]),), {"axis": 1}), "Split": ((np.array([2, 3]),), {"axis": 1}),
    "ReduceSum": ((np.array([1, 2]),), {}), "Atan": ((), {}), "Equal": ((np.float32(0.5),), {}),
    "Mod": ((np.float32(0.5),), {"fmod": 1}), "Clip": ((np.float32(-0.5), np.float32(0.5)), {}),
}  # fmt: skip
"""Operator -> its constant operands, its attributes."""


def check(net: Net, y: str, dtype: Any = F32) -> None:
    """The model gives what onnxruntime gives, and moves nothing."""
    net.output(net("Transpose", y, perm=[0, 2, 3, 1]), dtype=dtype)
    feeds = {"x": net.rng.standard_normal(SHAPE).astype(F32).round(1)}
    model = net.agrees(1e-6, feeds=feeds)
    assert "transpose" not in {step.node.op for step in model.plan.program.steps}


def turned(net: Net) -> str:
    return str(net("Transpose", net.input("x", SHAPE), perm=[0, 3, 1, 2]))


@pytest.mark.parametrize("op", OPERATORS)
def test_through(op: str) -> None:
    net, (constants, attrs) = Net(opset=18), OPERATORS[op]
    outputs = 2 if op in ("TopK", "Split") else 1
    y = net(op, turned(net), *map(net.const, constants), outputs=outputs, **attrs)
    check(net, y if outputs == 1 else y[0], np.bool_ if op == "Equal" else F32)


def test_through_a_selection() -> None:
    net = Net()
    x = turned(net)
    check(net, net("Where", net("Less", x, 0.5), net("Relu", x), x))


def test_through_one_that_makes_extents_of_1() -> None:
    """The last axis of the operand is the first of more than one element of the result: data is moved all the same."""
    net = Net()
    x = net("Transpose", net.input("x", (1, 6, 1, 4)), perm=[0, 3, 1, 2])
    net.output(net("Transpose", net("Relu", net("Add", x, net.weight(4, 1, 1))), perm=[0, 2, 3, 1]))
    feeds = {"x": net.rng.standard_normal((1, 6, 1, 4)).astype(F32)}
    model = net.agrees(1e-6, feeds=feeds)
    assert [step.node.op for step in model.plan.program.steps] == ["fused"]


def test_sums_with_an_input_that_is_quantized() -> None:
    """Residual sums have channels last, although the first of them reads an input that has them first."""
    net = Net()
    grid = net.const(np.float32(0.05)), net.const(np.uint8(128))

    def rounded(value: str) -> str:
        return str(net("DequantizeLinear", net("QuantizeLinear", value, *grid), *grid))

    def weights() -> str:
        stored = net.const(net.rng.integers(-63, 64, (8, 8, 3, 3)).astype(np.int8))
        return str(net("DequantizeLinear", stored, 0.002, np.int8(0)))

    x = rounded(net.input("x", (1, 8, 6, 6)))
    for _ in range(3):
        y = rounded(net("Conv", x, weights(), kernel_shape=[3, 3], pads=[1] * 4))
        x = rounded(net("Add", x, y))
    net.output(x)
    feeds = {"x": net.rng.standard_normal((1, 8, 6, 6)).astype(F32)}
    model = net.agrees(1e-6, feeds=feeds)
    assert [step.node.op for step in model.plan.program.steps].count("transpose") == 2
