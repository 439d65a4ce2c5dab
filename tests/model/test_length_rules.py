"""Random chains of the operators that rules of lengths know, beside onnxruntime: one plan runs all lengths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fastgraph.freedoms import thresholds
from fastgraph.ir import is_open
from fastgraph.runtime.keys import Credit
from tests.nets import F32, Net, assert_close, session

ROWS = 3
Piece = Callable[[Net, str, np.random.Generator], str]
"""Writes nodes that make rows of some length out of ROWS rows of another."""


def length(net: Net, x: str) -> str:
    """The length of rows, as a vector of one number."""
    return net("Slice", net("Shape", x), net.const([1]), net.const([2]))


def padded(net: Net, x: str, rng: np.random.Generator) -> str:
    before, after = (int(n) for n in rng.integers(0, 3, 2))
    return net("Pad", x, net.const([0, before, 0, after]), net.const(float(rng.integers(3)), F32))


def cut(net: Net, x: str, rng: np.random.Generator) -> str:
    first, last = int(rng.integers(0, 3)), int(rng.integers(0, 3))
    end = net("Sub", length(net, x), net.const([last])) if last % 2 else net.const([-last if last else 1 << 40])
    return net("Slice", x, net.const([first]), end, net.const([1]))


def from_the_end(net: Net, x: str, rng: np.random.Generator) -> str:
    return net("Slice", x, net("Neg", length(net, x)), net.const([1 << 40]), net.const([1]))


def triangle(net: Net, x: str, rng: np.random.Generator) -> str:
    return net("Trilu", x, net.const(int(rng.integers(-1, 2))), upper=int(rng.integers(2)))


def of_a_table(net: Net, x: str, rng: np.random.Generator) -> str:
    """Adds rows of a table, from a place that the length tells."""
    n, more = length(net, x), int(rng.integers(1, 4))
    rows = net("Slice", net.weight(200, 1), n, net("Add", n, net.const([more])), net.const([0]))
    return net("Add", x, net("ReduceSum", rows, net.const([0, 1]), keepdims=1))


def places(net: Net, x: str, rng: np.random.Generator) -> str:
    """Adds the places, counted from some number on."""
    n, first = net("Squeeze", length(net, x)), net.const(int(rng.integers(4)))
    return net("Add", x, net("Cast", net("Range", first, net("Add", first, n), net.const(1)), to=1))


def in_another_order(net: Net, x: str, rng: np.random.Generator) -> str:
    """Rows by indices that count elements row after row."""
    n = net("Squeeze", length(net, x))
    starts = net("Mul", net.const(rng.integers(0, ROWS, (ROWS, 1))), n)
    found = net("Add", starts, net("Unsqueeze", net("Range", net.const(0), n, net.const(1)), net.const([0])))
    return net("Gather", net("Reshape", x, net.const([-1])), found)


def normalized(net: Net, x: str, rng: np.random.Generator) -> str:
    channels = net("Unsqueeze", x, net.const([0]))
    y = net("InstanceNormalization", channels, net.weight(ROWS), net.weight(ROWS), epsilon=1e-2)
    return net("Squeeze", y, net.const([0]))


def less_its_mean(net: Net, x: str, rng: np.random.Generator) -> str:
    return net("Sub", x, net("ReduceMean", x, axes=[1]))


def twice(net: Net, x: str, rng: np.random.Generator) -> str:
    return net("Add", net("Softmax", x, axis=1), net("CumSum", net("Tanh", x), net.const(1)))


def rewritten(net: Net, x: str, rng: np.random.Generator) -> str:
    """Written to all places by their indices."""
    n, shape = net("Squeeze", length(net, x)), net("Shape", x)
    row = net("Range", net.const(0), net("Squeeze", net("Slice", shape, net.const([0]), net.const([1]))), net.const(1))
    parts = [net("Expand", net("Reshape", row, net.const([-1, 1])), shape)]
    parts.append(net("Expand", net("Range", net.const(0), n, net.const(1)), shape))
    every = net("Concat", *(net("Unsqueeze", part, net.const([-1])) for part in parts), axis=-1)
    return net("ScatterND", net("Expand", net.const(0, F32), shape), every, x)


PIECES: tuple[Piece, ...] = (
    padded, cut, from_the_end, triangle, of_a_table, places, in_another_order, normalized, less_its_mean, twice,
    rewritten,
)  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_chains(seed: int) -> None:
    rng, net = np.random.default_rng(seed), Net(seed=seed)
    x = net.input("x", [ROWS, "n"])
    for piece in rng.choice(len(PIECES), rng.integers(2, 7)):
        x = PIECES[piece](net, x, rng)
    net.output(net("Mul", x, x), net("ReduceMean", net("Abs", x), axes=[1]))
    ort = session(net.bytes())
    with thresholds(native_work=1 << 40):
        model = net.load(threads=1 + seed % 2)
        model._planner.lengths._credit = Credit(1, 0)
        for n in (40, 41, 38, 62, 45, 33):
            model.run({"x": np.full((ROWS, 63), np.nan, F32)})  # what lies in memory afterwards is no number
            fed = {"x": rng.standard_normal((ROWS, n)).astype(F32)}
            assert_close(list(model.run(fed).values()), ort.run(None, fed), 1e-4, f"{n}")
    assert any(is_open(key.shapes) for key in model._plans.keys())
