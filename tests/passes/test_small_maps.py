"""Convolutions of maps that are smaller than their windows, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from fastgraph.passes.decompositions import small_maps
from tests.nets import F32, Net


def form(number: int) -> tuple[tuple[int, ...], dict[str, Any]]:
    """A random input shape and the attributes of a layer of it."""
    rng = np.random.default_rng(number)
    rank = int(rng.integers(1, 4))
    pick = lambda low, high: [int(n) for n in rng.integers(low, high, rank)]  # noqa: E731
    kernel, size, strides, dilations = pick(1, 5), pick(1, 8), pick(1, 3), pick(1, 9)
    pads = [int(rng.integers(0, (k - 1) * d + 1)) for _ in range(2) for k, d in zip(kernel, dilations, strict=True)]
    need = [(k - 1) * d + 1 - n for k, d, n in zip(kernel, dilations, size, strict=True)]
    pads[rank:] = [max(p, n - q) for p, q, n in zip(pads[rank:], pads, need, strict=False)]
    groups, own = int(rng.choice([1, 1, 3])), int(rng.choice([1, 4]))
    shape = (int(rng.integers(1, 3)), groups * own, *size)
    return shape, {"group": groups, "strides": strides, "dilations": dilations, "pads": pads, "kernel_shape": kernel}


@pytest.mark.parametrize("seed", range(150))
def test_any_form(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, attrs = form(seed)
    if seed % 3:
        monkeypatch.setattr(small_maps, "WORTH", 1)
    net = Net()
    weights = (
        net.weight(attrs["group"] * 5, shape[1] // attrs["group"], *attrs["kernel_shape"]),
        net.weight(attrs["group"] * 5),
    )
    net.output(net("Relu", net("Conv", net.input("x", shape), *weights, **attrs)))
    x = np.random.default_rng(0).standard_normal(shape).astype(F32)
    net.agrees_optimized({"x": x})


def atrous(dilation: int, residual: bool = False) -> list[tuple[int, ...]]:
    """The windows that a 3 x 3 layer of a map of 14 x 14 becomes."""
    net = Net()
    x = net.input("x", (1, 96, 14, 14))
    y = net("Conv", x, net.weight(96, 96, 3, 3), dilations=[dilation] * 2, pads=[dilation] * 4)
    net.output(net("Add", x, y) if residual else y)
    fed = {"x": np.random.default_rng(0).standard_normal((1, 96, 14, 14)).astype(F32)}
    model = net.agrees(1e-5, feeds=fed)
    layers = [node for node in model.plan.graph.nodes if node.op == "conv"]
    return [node.inputs[1].type.dims[1:-1] for node in layers if node.inputs[1] is not None]


def test_taps_that_lie_in_padding_are_left_out() -> None:
    assert atrous(24) == atrous(24, residual=True) == [(1, 1)]
    assert atrous(12) == [(3, 2), (3, 1), (3, 2)]
    assert atrous(12, residual=True) == atrous(2) == [(3, 3)]
