"""Functions, norms and activations of f64 by kernels, on every tier: within few of NumPy's last bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.isa.tiers import usable
from fastgraph.ops.evaluate import evaluate
from fastgraph.runtime.model import Model
from tests.element_types import one
from tests.kernels.harness import each_tier
from tests.passes.native import host_operators

RNG = np.random.default_rng(7)


def run(op: str, arrays: Any, tier: Any, constants: Any = (), **attrs: Any) -> np.ndarray:
    """What a native model of one node gives."""
    model = Model(one(op, arrays, constants, attrs), tier, 2)
    assert host_operators(model) == []
    return next(iter(model.run({f"x{i}": array for i, array in enumerate(arrays)}).values()))


def within(found: np.ndarray, right: np.ndarray, ulps: float) -> None:
    """By so many units in the last place, where the result is a normal number; and the same infinities, NaNs, signs."""
    small = np.abs(right) < 2.0**-1020
    assert (np.abs(found[small]) < 2.0**-1020).all()
    exact = ~np.isfinite(right)
    np.testing.assert_array_equal(found[exact], right[exact])
    assert (np.signbit(found) == np.signbit(right))[~np.isnan(right)].all()
    rest = ~(small | exact)
    assert (np.abs(found - right)[rest] <= ulps * np.spacing(np.abs(right[rest]))).all()


ENDS = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0])
FAR = np.concatenate([10.0 ** RNG.uniform(0, 308, 500) * RNG.choice([-1, 1], 500), [2.0**20, 2.0**1023]])


@each_tier
def test_sines_of_all_numbers(tier: Any) -> None:
    """Near and at multiples of pi / 2, beyond 2**20, up to the greatest."""
    near = RNG.uniform(-10, 10, 999), RNG.uniform(-2e6, 2e6, 999), np.arange(-99, 99) * np.pi / 2
    x = np.concatenate([*near, FAR, ENDS])
    with np.errstate(all="ignore"):
        within(run("sin", [x], tier), np.sin(x), 2)
        within(run("cos", [x], tier), np.cos(x), 2)


@each_tier
def test_error_function(tier: Any) -> None:
    x = np.concatenate([RNG.uniform(-7, 7, 2000), 10.0 ** RNG.uniform(-200, 3, 200), [1.0, -1.0, 6.0], ENDS])
    within(run("erf", [x], tier), np.vectorize(math.erf)(x), 2)


@each_tier
def test_powers(tier: Any) -> None:
    """With exponents that raise what the logarithm loses, and all pairs of special numbers."""
    base = np.concatenate([10.0 ** RNG.uniform(-5, 5, 2000), RNG.uniform(0.8, 1.2, 2000)])
    exponent = np.concatenate([RNG.uniform(-60, 60, 2000), RNG.uniform(-3000, 3000, 2000)])
    special = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, 3, -3, np.inf, -np.inf, np.nan, 1e300, -1e300, 2.5, -2.5, 1e-300])
    pairs = [v.ravel() for v in np.meshgrid(special, special)]
    x, y = np.concatenate([base, pairs[0]]), np.concatenate([exponent, pairs[1]])
    with np.errstate(all="ignore"):
        right = x**y
    found = run("pow", [x, y], tier)
    most = np.abs(right) < 1e308
    within(found[most], right[most], 2)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(right))


ACTIVATIONS: dict[str, dict[str, Any]] = {
    "sigmoid": {}, "tanh": {}, "softplus": {}, "softsign": {}, "mish": {}, "hard_swish": {}, "tan": {},
    "hard_sigmoid": {"alpha": 0.3, "beta": 0.4}, "swish": {"alpha": 1.5}, "leaky_relu": {"alpha": 0.1},
    "thresholded_relu": {"alpha": 0.7}, "elu": {"alpha": 1.3}, "celu": {"alpha": 0.8}, "selu": {}, "gelu": {},
    "shrink": {"lambd": 0.6, "bias": 0.2},
}  # fmt: skip


@each_tier
@pytest.mark.parametrize("op", [*ACTIVATIONS, "gelu_tanh"])
def test_activations(tier: Any, op: str) -> None:
    """To some roundings of the terms that they add."""
    x = np.concatenate([RNG.standard_normal(500) * 4, RNG.standard_normal(100) * 1e-9, RNG.uniform(-800, 800, 99)])
    attrs = {"approximate": "tanh"} if op == "gelu_tanh" else ACTIVATIONS[op]
    op = op.removesuffix("_tanh") if op == "gelu_tanh" else op
    with np.errstate(all="ignore"):
        (right,) = evaluate(one(op, [x], (), attrs), {"x0": x})
    np.testing.assert_allclose(run(op, [x], tier, **attrs), right, 4e-15, 1e-15)


def test_extremes_of_activations() -> None:
    """Infinities and NaN are what NumPy makes of them."""
    tier = usable()[-1]
    for op in ("sigmoid", "tanh", "softplus", "leaky_relu", "elu", "selu", "hard_sigmoid", "thresholded_relu"):
        with np.errstate(all="ignore"):
            (right,) = evaluate(one(op, [ENDS]), {"x0": ENDS})
        np.testing.assert_array_equal(run(op, [ENDS], tier), right, op)


@pytest.mark.parametrize("op", ["shrink", "swiglu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_that_no_type_has_a_kernel_for(op: str, dtype: Any) -> None:
    arrays = [RNG.standard_normal((3, 50)).astype(dtype) for _ in range(1 + (op == "swiglu"))]
    (right,) = evaluate(one(op, arrays), {f"x{i}": a for i, a in enumerate(arrays)})
    np.testing.assert_allclose(run(op, arrays, usable()[-1]), right, 8 * np.finfo(dtype).eps, np.finfo(dtype).eps)


NORMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "layer_normalization": ((3, 40), (40,), {"axis": -1}),
    "rms_normalization": ((3, 40), (40,), {"axis": -1}),
    "instance_normalization": ((2, 5, 6, 4), (4,), {}),
    "group_normalization": ((2, 4, 5, 5), (4,), {"num_groups": 2}),
    "lp_normalization": ((3, 40), (), {"axis": 1, "p": 2}),
    "lrn": ((2, 5, 5, 12), (), {"size": 3}),
}


@pytest.mark.parametrize("op", NORMS)
def test_norms(op: str) -> None:
    shape, scale, attrs = NORMS[op]
    x = RNG.standard_normal(shape)
    weights = [RNG.standard_normal(scale) for _ in range(1 if op.startswith("rms") else 2)] if scale else []
    (right,) = evaluate(one(op, [x], weights, attrs), {"x0": x})
    np.testing.assert_allclose(run(op, [x], usable()[-1], weights, **attrs), right, 1e-13, 1e-13)


def test_squares_are_products() -> None:
    x = RNG.standard_normal((3, 50))
    np.testing.assert_array_equal(run("pow", [x], usable()[-1], [np.array(2.0)]), x * x)
