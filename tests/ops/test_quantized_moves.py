"""Numbers that a quantization can't store, and scales along an axis, where data is only moved. As onnxruntime."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fastgraph.freedoms import without
from tests.nets import Net, by_onnxruntime

RNG = np.random.default_rng(11)
SHAPE = (2, 4, 4, 6)
PLACES = np.arange(96).reshape(2, 4, 2, 6) % 4

Move = Callable[[Net, str], Any]
MOVES: dict[str, Move] = {
    "reshape": lambda net, x: net("Reshape", x, [2, 4, 24]),
    "unsqueeze": lambda net, x: net("Unsqueeze", x, [1]),
    "transpose": lambda net, x: net("Transpose", x, perm=[0, 2, 3, 1]),
    "slice": lambda net, x: net("Slice", x, [-1], [-9], [1], [-1]),
    "split": lambda net, x: net("Split", x, outputs=2, axis=1)[1],
    "gather": lambda net, x: net("Gather", x, [3, 0], axis=1),
    "expand": lambda net, x: net("Expand", x, [3, 1, 1, 1, 1]),
    "tile": lambda net, x: net("Tile", x, [1, 2, 1, 1]),
    "pad": lambda net, x: net("Pad", x, [0, 0, 1, 0, 0, 0, 0, 2]),
    "pad by a number": lambda net, x: net("Pad", x, [0, 1, 0, 0, 0, 0, 0, 2], 0.3),
    "pad by edges": lambda net, x: net("Pad", x, [0, 1, 1, 0, 0, 0, 0, 2], mode="edge"),
    "concat": lambda net, x: net("Concat", x, x, axis=2),
    "max_pool": lambda net, x: net("MaxPool", x, kernel_shape=[2, 2]),
    "reduce_max": lambda net, x: net("ReduceMax", x, axes=[2, 3], keepdims=0),
    "reduce_min": lambda net, x: net("ReduceMin", x, axes=[1]),
    "gather_elements": lambda net, x: net("GatherElements", x, PLACES, axis=2),
    "compress": lambda net, x: net("Compress", x, [True, False, True], axis=1),
    "space_to_depth": lambda net, x: net("SpaceToDepth", x, blocksize=2),
    "resize": lambda net, x: net("Resize", x, "", [1.0, 1.0, 2.0, 2.0], mode="nearest"),
}


def stored(net: Net, x: str, count: int = 0, axis: int = 1) -> tuple[tuple[str, str], dict[str, int]]:
    """Scale and zero point, or as many as there are along an axis."""
    if not count:
        return (net.const(np.float32(0.05)), net.const(np.uint8(120))), {}
    scales, zeros = net.rng.uniform(0.02, 0.09, count), net.rng.integers(100, 150, count)
    return (net.const(scales.astype(np.float32)), net.const(zeros.astype(np.uint8))), {"axis": axis}


def agree(net: Net, **feeds: np.ndarray) -> None:
    model = net.load()
    for found, expected in zip(model.run(feeds).values(), by_onnxruntime(net.bytes(), feeds), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("before", [None, 0, 1, 3])
@pytest.mark.parametrize("after", [None, 0, 1])
def test_scales_along_an_axis_of_activations(move: str, before: int | None, after: int | None) -> None:
    net = Net()
    x = net.input("x", SHAPE, np.uint8)
    kind, axis = stored(net, x) if before is None else stored(net, x, SHAPE[before], before)
    y = MOVES[move](net, net("DequantizeLinear", x, *kind, **axis))
    numbers = RNG.integers(0, 256, SHAPE).astype(np.uint8)
    net.output(y)
    shape = by_onnxruntime(net.bytes(), {"x": numbers})[0].shape
    net.outputs.clear()
    kind, axis = stored(net, y) if after is None else stored(net, y, shape[after], after)
    net.output(net("DequantizeLinear", net("QuantizeLinear", y, *kind, **axis), *kind, **axis))
    agree(net, x=numbers)


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("freedom", [None, "moved"])
def test_from_one_scale_to_another(move: str, freedom: str | None) -> None:
    """Whether the change of scale stands by itself, as a rule sees to, or is left to the move."""
    net = Net()
    x = net.input("x", SHAPE, np.uint8)
    y = MOVES[move](net, net("DequantizeLinear", x, *stored(net, x)[0]))
    kind = net.const(np.float32(0.07)), net.const(np.uint8(100))
    net.output(net("DequantizeLinear", net("QuantizeLinear", y, *kind), *kind))
    with without(*([freedom] if freedom else [])):
        agree(net, x=RNG.integers(0, 256, SHAPE).astype(np.uint8))


@pytest.mark.parametrize("op", ["Conv", "AveragePool"])
def test_scales_along_the_channels_that_a_spatial_operator_makes(op: str) -> None:
    net = Net()
    x = net.input("x", SHAPE)
    y = net(op, x, *([net.weight(4, 4, 2, 2)] if op == "Conv" else []), kernel_shape=[2, 2])
    kind, axis = stored(net, y, 4)
    net.output(net("DequantizeLinear", net("QuantizeLinear", y, *kind, **axis), *kind, **axis))
    agree(net, x=RNG.standard_normal(SHAPE).astype(np.float32))


@pytest.mark.parametrize("fill", [1.55, 1000, -1e9, -np.inf, 0.3])
@pytest.mark.parametrize("scale", [None, 0.1, 0.17])
def test_a_pad_by_what_its_operand_can_not_store(fill: float, scale: float | None) -> None:
    """0.3 is one of its numbers; a next quantization may hold more."""
    net = Net()
    x = net.input("x", (2, 4), np.uint8)
    real = net("DequantizeLinear", x, 0.1, np.uint8(3))
    y = net("Pad", real, [0, 1, 0, 2], np.float32(fill))
    if scale is not None:
        kind = net.const(np.float32(scale)), net.const(np.uint8(9))
        y = net("DequantizeLinear", net("QuantizeLinear", y, *kind), *kind)
    net.output(y)
    agree(net, x=np.arange(8, dtype=np.uint8).reshape(2, 4))
