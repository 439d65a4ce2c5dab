"""Norms and rare functions of f64 by kernels; tests/functions has all others, on every tier."""

from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.isa.tiers import usable
from fastgraph.ops.evaluate import evaluate
from fastgraph.runtime.model import Model
from tests.element_types import one
from tests.nets import numpy_steps

RNG = np.random.default_rng(7)


def run(op: str, arrays: Any, tier: Any, constants: Any = (), **attrs: Any) -> np.ndarray:
    """What a native model of one node gives."""
    model = Model(one(op, arrays, constants, attrs), tier, 2)
    assert numpy_steps(model) == []
    return next(iter(model.run({f"x{i}": array for i, array in enumerate(arrays)}).values()))


ENDS = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0])


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
