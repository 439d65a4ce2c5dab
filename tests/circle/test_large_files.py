"""TensorFlow Lite files of many operators load in linear work, and run right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fastgraph as fg
from tests.circle.write import Model
from tests.scaling import check_linear

SHAPE = (4, 8)


def residual_chain(n: int) -> bytes:
    m = Model()
    x = first = m.input(SHAPE, name="x")
    for _ in range(n // 2):
        (y,) = m.op("SOFTMAX", [x], [SHAPE], beta=1.0)
        (x,) = m.op("ADD", [y, first], [SHAPE])
    return m.bytes([x])


def branches(n: int) -> bytes:
    m = Model()
    x = m.input(SHAPE, name="x")
    parts = [m.op("SOFTMAX", [x], [SHAPE], beta=1.0)[0] for _ in range(n)]
    (y,) = m.op("CONCATENATION", parts, [(SHAPE[0], SHAPE[1] * n)], axis=1)
    return m.bytes([y])


def calls(n: int) -> bytes:
    """Every other operator is a sub-graph, written out."""
    m = Model()
    x = m.input(SHAPE, name="x")
    for _ in range(n // 2):
        (x,) = m.op("CALL", [x], [SHAPE], subgraph=1)
    m.now["outputs"] = [x]
    m.graph()
    x = m.input(SHAPE)
    (y,) = m.op("SOFTMAX", [x], [SHAPE], beta=1.0)
    return m.bytes([m.op("NEG", [y], [SHAPE])[0]])


def quantized_chain(n: int) -> bytes:
    m = Model()
    x = m.input(SHAPE, np.int8, (0.05, 3), name="x")
    w = m.const(np.random.default_rng(0).integers(-127, 128, (8, 8)).astype(np.int8), (0.01, 0))
    for _ in range(n):
        (x,) = m.op("FULLY_CONNECTED", [x, w, None], [(SHAPE, np.int8, (0.05, 3))])
    return m.bytes([x])


FILES: dict[str, Callable[[int], bytes]] = {
    "residual chain": residual_chain, "branches": branches, "calls": calls, "quantized chain": quantized_chain,
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.slow
def test_calls_are_linear_and_kernels_few(name: str) -> None:
    assert len(check_linear(FILES[name], 200).plan.kernels()) <= 8


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.slow
def test_five_thousand_operators() -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    y = x
    for _ in range(2500):
        y = softmax(y) + x
    np.testing.assert_allclose(fg.load(residual_chain(5000), threads=1)(x), y, rtol=1e-4, atol=1e-5)
    wide = fg.load(branches(5000), threads=1)(x)
    np.testing.assert_allclose(wide, np.tile(softmax(x), 5000), rtol=1e-5, atol=1e-6)
