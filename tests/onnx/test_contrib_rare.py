"""The rest of com.microsoft against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.nets import F32, I64, Net, by_onnxruntime
from tests.onnx.contrib import MS, compare, numbers

I32 = np.dtype(np.int32)


def same(net: Net, feeds: dict[str, Any], rtol: float = 1e-5) -> None:
    for have, want in zip(net.load().run(feeds).values(), by_onnxruntime(net.bytes(), feeds), strict=True):
        compare(have, want, 0, rtol)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, -1, 2])
def test_trilu(upper: int, k: int | None) -> None:
    net = Net()
    ks = [] if k is None else [net.const(np.array(k, I64))]
    net.output(net("Trilu", net.input("x", (2, 4, 5)), *ks, domain=MS, upper=upper))
    same(net, {"x": numbers(net.rng, (2, 4, 5), F32)})


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("shape", [(4,), (1, 4)])
def test_pad(mode: str, shape: tuple[int, ...]) -> None:
    net = Net()
    pads = net.const(np.array([1, 0, 2, 1], I64).reshape(shape))
    value = [net.const(np.array([0.5], F32))] if mode == "constant" else []
    net.output(net("Pad", net.input("x", (4, 5)), pads, *value, domain=MS, mode=mode))
    same(net, {"x": numbers(net.rng, (4, 5), F32)})


def test_unique() -> None:
    net = Net()
    y, at, counts = net("Unique", net.input("x", (7,)), domain=MS, outputs=3)
    net.output(y)
    net.output(at, counts, dtype=I64)
    same(net, {"x": np.array([3, 1, 3, 2, 2, 3, 0], F32)})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_expand_dims(axis: int) -> None:
    net = Net()
    net.output(net("ExpandDims", net.input("x", (4, 5)), net.const(np.array(axis, I32)), domain=MS))
    same(net, {"x": numbers(net.rng, (4, 5), F32)})


@pytest.mark.parametrize("delta", [None, 2.5, -1.0])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_range(delta: float | None, shape: tuple[int, ...]) -> None:
    net = Net()
    ends = [1.0, 9.0] if delta is None or delta > 0 else [9.0, 1.0]
    parts = [net.const(np.full(shape, v, F32)) for v in (*ends, *([] if delta is None else [delta]))]
    net.output(net("Add", net("Range", *parts, domain=MS), net.input("x", ())))
    same(net, {"x": np.array(1, F32)})


def test_gather_nd() -> None:
    net = Net()
    at = net.const(np.array([[0, 1], [1, 2]], I64))
    net.output(net("GatherND", net.input("x", (2, 4, 5)), at, domain=MS))
    same(net, {"x": numbers(net.rng, (2, 4, 5), F32)})


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_grid_sample(mode: str, padding: str) -> None:
    net = Net()
    inputs = [net.input("x", (1, 2, 5, 6)), net.input("grid", (1, 3, 4, 2))]
    net.output(net("GridSample", *inputs, domain=MS, mode=mode, padding_mode=padding))
    same(net, {"x": numbers(net.rng, (1, 2, 5, 6), F32), "grid": net.rng.uniform(-1.2, 1.2, (1, 3, 4, 2)).astype(F32)})


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_cdist(metric: str) -> None:
    net = Net()
    net.output(net("CDist", net.input("a", (5, 8)), net.input("b", (7, 8)), domain=MS, metric=metric))
    same(net, {"a": numbers(net.rng, (5, 8), F32), "b": numbers(net.rng, (7, 8), F32)})


def test_inverse() -> None:
    net = Net()
    net.output(net("SampleOp", net("Inverse", net.input("x", (2, 3, 4, 4)), domain=MS), domain=MS))
    same(net, {"x": numbers(net.rng, (2, 3, 4, 4), F32) + 4 * np.eye(4, dtype=F32)})
    none = np.zeros((2, 3, 4, 4), F32)
    none[0] = np.eye(4)
    y = net.load()(none)
    assert np.array_equal(y[0], none[0]) and np.isnan(y[1]).all()


def test_what_is_not_there_is_named_with_its_domain() -> None:
    net = Net()
    net.output(net("BeamSearch", net.input("x", (2, 3)), domain=MS), net("Conv", "x", domain="com.microsoft.nchwc"))
    with pytest.raises(fg.UnsupportedError, match=r"com\.microsoft\.BeamSearch.*com\.microsoft\.nchwc\.Conv"):
        net.load()
