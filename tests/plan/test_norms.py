"""Normalizations of rows: native in each form, and as onnxruntime has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.blocks import BLOCKS
from tests.nets import F32, Net, numpy_steps


def by_operator(net: Net) -> None:
    x = net.input("x", (2, 5, 24))
    net.output(net("Relu", net("LayerNormalization", x, net.weight(24), net.weight(24), axis=-1)))


def over_two_axes(net: Net) -> None:
    net.opset = 23
    net.output(net("RMSNormalization", net.input("x", (2, 5, 24)), net.weight(5, 24), axis=1, epsilon=0.1))


def without_parameters(net: Net) -> None:
    x = net.input("x", (3, 7))
    centered = net("Sub", x, net("ReduceMean", x, axes=[1]))
    variance = net("ReduceMean", net("Mul", centered, centered), axes=[1])
    y = net("Div", centered, net("Sqrt", net("Add", net.const(np.array(0.5, F32)), variance)))
    net.output(net("Add", y, net.input("other", (3, 7))))


FOUND = (by_operator, over_two_axes, without_parameters, BLOCKS["layer_norm_by_hand"], BLOCKS["rms_norm_by_hand"])


@pytest.mark.parametrize("write", FOUND)
@pytest.mark.parametrize("threads", [1, 2])
def test_one_kernel(write: Callable[[Net], None], threads: int):
    net = Net()
    write(net)
    model = net.agrees(1e-5, threads=threads)
    kernels = [step.kernel.name for step in model.plan.program.steps]
    assert kernels.count("norm") == 1 and "reduce" not in kernels


def other_row(net: Net) -> None:
    """The root is of another value."""
    x, z = net.input("x", (3, 7)), net.input("z", (3, 7))
    root = net("Sqrt", net("Add", net("ReduceMean", net("Mul", z, z), axes=[1]), net.const(F32.type(0.5))))
    net.output(net("Div", x, root))


def other_axis(net: Net) -> None:
    x = net.input("x", (3, 7))
    root = net("Sqrt", net("Add", net("ReduceMean", net("Mul", x, x), axes=[0]), net.const(F32.type(0.5))))
    net.output(net("Div", x, root))


def upside_down(net: Net) -> None:
    x = net.input("x", (3, 7))
    root = net("Sqrt", net("Add", net("ReduceMean", net("Mul", x, x), axes=[1]), net.const(F32.type(0.5))))
    net.output(net("Div", root, x))


def scaled_twice(net: Net) -> None:
    """One of them is the scale, and a bias for each row is none."""
    x = net.input("x", (3, 7))
    y = net("LayerNormalization", x, net.const(np.ones(7, F32)), axis=-1)
    y = net("Mul", net("Mul", y, net.weight(7)), net.weight(1, 7))
    net.output(net("Add", y, net.weight(3, 1)))


@pytest.mark.parametrize("write", [other_row, other_axis, upside_down, scaled_twice])
def test_what_only_looks_like_it(write: Callable[[Net], None]):
    net = Net()
    write(net)
    net.agrees(1e-5)


@pytest.mark.parametrize("axes", [[0, 2, 3], [1], [-1], [0, 1], [1, 3], [0, 1, 2, 3]])
def test_mean_variance_normalizations(axes: list[int]) -> None:
    net = Net()
    net.output(net("MeanVarianceNormalization", net.input("x", (3, 6, 5, 4)), axes=axes))
    model = net.agrees(1e-5)
    assert not numpy_steps(model)
