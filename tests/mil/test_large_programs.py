"""Core ML programs of many operators load in linear work, and run right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.mil.mil_write import Program
from tests.scaling import check_linear

SHAPE = (4, 8)
KIND = ("FLOAT32", SHAPE)


def residual_chain(n: int) -> bytes:
    p = Program()
    x = first = p.input("x", SHAPE)
    for i in range(n // 2):
        y = p.op("softmax", f"s{i}", KIND, x=x, axis=-1)
        x = p.op("add", f"a{i}", KIND, x=y, y=first)
    p.output(x)
    return p.zip()


def branches(n: int) -> bytes:
    p = Program()
    x = p.input("x", SHAPE)
    parts: Any = [p.op("softmax", f"s{i}", KIND, x=x, axis=-1) for i in range(n)]
    p.output(p.op("concat", "y", ("FLOAT32", (SHAPE[0], SHAPE[1] * n)), values=parts, axis=1, interleave=False))
    return p.zip()


def split(n: int) -> bytes:
    """One operator of many results."""
    p = Program()
    x = p.input("x", (2, n))
    names = [f"s{i}" for i in range(n)]
    made = p.op("split", names, [("FLOAT32", (2, 1))] * n, x=x, axis=1, num_splits=n)
    p.output(p.op("concat", "y", ("FLOAT32", (2, n)), values=list(made)[::-1], axis=1, interleave=False))
    return p.zip()


PROGRAMS: dict[str, Callable[[int], bytes]] = {"residual chain": residual_chain, "branches": branches, "split": split}


@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_are_linear_and_kernels_few(name: str) -> None:
    assert len(check_linear(PROGRAMS[name], 200).plan.kernels()) <= 8


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.slow
def test_five_thousand_operators() -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    y = x
    for _ in range(2500):
        y = softmax(y) + x
    (found,) = fg.load(residual_chain(5000), threads=1).run({"x": x}).values()
    np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-5)
    (found,) = fg.load(branches(5000), threads=1).run({"x": x}).values()
    np.testing.assert_allclose(found, np.tile(softmax(x), 5000), rtol=1e-5, atol=1e-6)
