"""TensorFlow Lite files and Core ML programs of many operators load in linear work, and run right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.circle.write import Model
from tests.mil.mil_write import Program
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


KIND = ("FLOAT32", SHAPE)


def mil_residual_chain(n: int) -> bytes:
    p = Program()
    x = first = p.input("x", SHAPE)
    for i in range(n // 2):
        y = p.op("softmax", f"s{i}", KIND, x=x, axis=-1)
        x = p.op("add", f"a{i}", KIND, x=y, y=first)
    p.output(x)
    return p.zip()


def mil_branches(n: int) -> bytes:
    p = Program()
    x = p.input("x", SHAPE)
    parts: Any = [p.op("softmax", f"s{i}", KIND, x=x, axis=-1) for i in range(n)]
    p.output(p.op("concat", "y", ("FLOAT32", (SHAPE[0], SHAPE[1] * n)), values=parts, axis=1, interleave=False))
    return p.zip()


def mil_split(n: int) -> bytes:
    """One operator of many results."""
    p = Program()
    x = p.input("x", (2, n))
    names = [f"s{i}" for i in range(n)]
    made = p.op("split", names, [("FLOAT32", (2, 1))] * n, x=x, axis=1, num_splits=n)
    p.output(p.op("concat", "y", ("FLOAT32", (2, n)), values=list(made)[::-1], axis=1, interleave=False))
    return p.zip()


FILES = (residual_chain, branches, calls, quantized_chain, mil_residual_chain, mil_branches, mil_split)


@pytest.mark.slow
@pytest.mark.parametrize("build", FILES, ids=lambda f: f.__name__)
def test_calls_are_linear_and_kernels_few(build: Callable[[int], bytes]) -> None:
    assert len(check_linear(build, 200).plan.kernels()) <= 8


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("chain, wide", [(residual_chain, branches), (mil_residual_chain, mil_branches)])
def test_five_thousand_operators(chain: Callable[[int], bytes], wide: Callable[[int], bytes]) -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    y = x
    for _ in range(2500):
        y = softmax(y) + x
    np.testing.assert_allclose(fg.load(chain(5000), threads=1)(x), y, rtol=1e-4, atol=1e-5)
    found = fg.load(wide(5000), threads=1)(x)
    np.testing.assert_allclose(found, np.tile(softmax(x), 5000), rtol=1e-5, atol=1e-6)
