"""Gathers at constant places become slices and shuffles; what they give is onnxruntime's, and no table is read."""

import numpy as np
import pytest

from tests.nets import F32, Net

STEPPED = {
    "one": [3], "last": [-1], "run": [2, 3, 4], "even": range(0, 12, 2), "odd": range(1, 12, 2),
    "third": range(1, 12, 3), "back": range(11, -1, -1), "back_by_two": range(10, -1, -2),
    "from_behind": [-3, -2, -1],
    "dealt_2": [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11], "dealt_4": np.arange(12).reshape(3, 4).T.ravel(),
}  # fmt: skip
OTHERS = {"twice": [2, 2, 2], "mixed": [0, 5, 1, 7], "nearly": [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 11, 9]}


def ops(net: Net, x: np.ndarray, y: str, dtype: np.dtype = F32) -> set[str]:
    """The operators of the plan, whose results are onnxruntime's."""
    net.output(y, dtype=dtype)
    model = net.agrees(0, feeds={"x": x})
    return {step.node.op for step in model.plan.program.steps}


@pytest.mark.parametrize("axis", (0, 1, -1))
@pytest.mark.parametrize("name", [*STEPPED, *OTHERS])
def test_places_along_an_axis(name: str, axis: int) -> None:
    net, at = Net(), [*(STEPPED | OTHERS)[name]]
    x = net.rng.standard_normal((12, 12, 12)).astype(F32)
    found = ops(net, x, net("Gather", net.input("x", x.shape), net.const(at, np.int64), axis=axis))
    assert ("gather" in found) == (name in OTHERS)


@pytest.mark.parametrize("at", (1, -2, [[1]], [[0, 1], [2, 3]], [[3], [1]]))
def test_indices_of_other_ranks(at: object) -> None:
    net = Net()
    x = net.rng.integers(-99, 99, (3, 4, 5)).astype(np.int64)
    y = net("Gather", net.input("x", x.shape, np.int64), net.const(at, np.int32), axis=1)
    assert "gather" not in ops(net, x, y, np.dtype(np.int64))


@pytest.mark.parametrize("extent", (1, 2, 33, 70))
@pytest.mark.parametrize("step", (2, 3, 4))
def test_halves_of_shuffled_channels(step: int, extent: int) -> None:
    """As in ShuffleNetV2's later forms: channels are dealt out, and each part is read by its number."""
    net, (h, w) = Net(), (5, 7)
    x = net.rng.standard_normal((1, 3, h, w)).astype(F32)
    y = net("Conv", net.input("x", x.shape), net.weight(extent * step, 3, 1, 1))
    y = net("Reshape", y, net.const([extent, step, h * w], np.int64))
    y = net("Reshape", net("Transpose", y, perm=[1, 0, 2]), net.const([step, -1, extent, h, w], np.int64))
    parts = [net("Gather", y, net.const(i, np.int64), axis=0) for i in range(step)]
    net.output(*parts, net("Relu", net("Concat", *reversed(parts), axis=1)))
    model = net.agrees(1e-5, feeds={"x": x})
    assert "gather" not in {step.node.op for step in model.plan.program.steps}


@pytest.mark.parametrize("op", ["ScatterElements", "ScatterND"])
def test_what_nothing_is_scattered_to_is_left(op: str) -> None:
    """As where no region of an image is of a level of Faster R-CNN's pyramid."""
    net, x = Net(), np.ones((4, 3), F32)
    index = net.const(np.zeros((0, 3) if op == "ScatterElements" else (0, 1)), np.int64)
    y = net(op, net("Exp", net.input("x", x.shape)), index, net.const(np.zeros((0, 3)), F32))
    assert ops(net, x, net("Neg", y)) == {"fused"}
