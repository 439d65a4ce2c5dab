"""Products of integers against onnxruntime: sums by themselves, and of what is rounded by its range in the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.nets import F32, Net
from tests.onnx.contrib import MS, S8, U8, agree, numbers
from tests.onnx.test_contrib import weights


def test_matmul_integer_to_float_of_what_is_rounded_in_the_run() -> None:
    net = Net()
    w, scale, zero = (operand(net, {}) for operand in weights(S8, (24, 10), 10, False))
    stored, x_scale, x_zero = net("DynamicQuantizeLinear", net.input("x", (5, 24)), outputs=3)
    net.output(net("MatMulIntegerToFloat", stored, w, x_scale, scale, x_zero, zero, net.weight(10), domain=MS))
    agree(net, {"x": numbers(net.rng, (5, 24), F32)}, rtol=1e-4)


@pytest.mark.parametrize("dtype", [U8, S8], ids=str)
@pytest.mark.parametrize("op", ["MatMulInteger", "ConvInteger"])
@pytest.mark.parametrize("zero", [None, 7])
def test_products_of_whole_numbers(op: str, dtype: Any, zero: int | None) -> None:
    """Sums that f32 holds are kernels' work: they are whole."""
    if op == "ConvInteger" and dtype == S8:
        pytest.skip("onnxruntime has no such kernel")
    net = Net()
    shape, weight = ((2, 5, 24), (24, 10)) if op == "MatMulInteger" else ((1, 4, 8, 8), (8, 4, 3, 3))
    attrs = {} if op == "MatMulInteger" else {"pads": [1, 1, 1, 1]}
    w = net.const(numbers(net.rng, weight, dtype))
    points = [] if zero is None else [net.const(np.array(zero, dtype))]
    net.output(net(op, net.input("x", shape, dtype), w, *points, **attrs), dtype=np.int32)
    agree(net, {"x": numbers(net.rng, shape, dtype)})


def test_sums_that_f32_does_not_hold_are_exact() -> None:
    net = Net()
    net.output(
        net("MatMulInteger", net.input("x", (2, 900), U8), net.const(np.full((900, 3), 127, S8))), dtype=np.int32
    )
    agree(net, {"x": numbers(net.rng, (2, 900), U8)})


def test_rounding_by_range_alone() -> None:
    net = Net()
    y, scale, zero = net("DynamicQuantizeLinear", net.input("x", (3, 40)), outputs=3)
    product = net("MatMulInteger", y, net.const(numbers(net.rng, (40, 6), S8)), zero)
    net.output(y, zero, dtype=U8)
    net.output(scale)
    net.output(product, dtype=np.int32)
    agree(net, {"x": numbers(net.rng, (3, 40), F32)})
    for fed in (np.zeros((3, 40), F32), np.full((3, 40), 2.5, F32), np.full((3, 40), -2.5, F32)):
        agree(net, {"x": fed})


@pytest.mark.parametrize("form", ["(c s) w", "c (w s)", "(c w) s"])
def test_factors_in_any_order_make_a_rounding_layer(form: str) -> None:
    net = Net()
    y, s, zero = net("DynamicQuantizeLinear", net.input("x", (5, 24)), outputs=3)
    c = net("Cast", net("MatMulInteger", y, net.const(numbers(net.rng, (24, 10), S8)), zero), to=1)
    w = net.const(net.rng.uniform(0.01, 0.02, 10).astype(F32))
    net.output({"(c s) w": lambda: net("Mul", net("Mul", c, s), w), "c (w s)": lambda: net("Mul", c, net("Mul", w, s)),
                "(c w) s": lambda: net("Mul", net("Mul", c, w), s)}[form]())  # fmt: skip
    agree(net, {"x": numbers(net.rng, (5, 24), F32)}, rtol=1e-4)
    assert {step.node.op for step in net.load().plan.program.steps} == {"dynamic_dense"}
