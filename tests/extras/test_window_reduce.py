"""Reductions over windows, and pads between elements, against loops over windows and elements."""

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from fastgraph.kernels.isa.tiers import usable
from fastgraph.ops.slices import REDUCTIONS
from fastgraph.runtime.model import Model
from tests.element_types import numbers, one
from tests.nets import numpy_steps


def padded(x: np.ndarray, value: np.ndarray, low: Any, high: Any, interior: Any) -> np.ndarray:
    shape = [max((n - 1) * (i + 1) + 1, 0) if n else 0 for n, i in zip(x.shape, interior, strict=True)]
    total = [max(n + a + b, 0) for n, a, b in zip(shape, low, high, strict=True)]
    y = np.full(total, value, x.dtype)
    for at in np.ndindex(x.shape):
        to = tuple(a + n * (i + 1) for a, n, i in zip(low, at, interior, strict=True))
        if all(0 <= t < n for t, n in zip(to, total, strict=True)):
            y[to] = x[at]
    return y


def reduced(x: np.ndarray, first: np.ndarray, reduction: str, window: Any, strides: Any, dilations: Any) -> np.ndarray:
    """Of an array with its pads."""
    places = zip(x.shape, window, strides, dilations, strict=True)
    extents = [max((n - (k - 1) * d - 1) // s + 1, 0) for n, k, s, d in places]
    y = np.empty(extents, x.dtype)
    for at in np.ndindex(*extents):
        total = first
        for tap in product(*map(range, window)):
            from_ = tuple(a * s + t * d for a, s, t, d in zip(at, strides, tap, dilations, strict=True))
            total = REDUCTIONS[reduction](total, x[from_])
        y[at] = total
    return y


def native(op: str, x: np.ndarray, value: np.ndarray, attrs: dict[str, Any], pick: Random) -> np.ndarray:
    model = Model(one(op, [x], [value], attrs), pick.choice(usable()), pick.randint(1, 2))
    assert not numpy_steps(model)
    return np.asarray(model.run({"x0": x})["y"])


def array(pick: Random, dtype: str, rank: int) -> np.ndarray:
    shape = [pick.randint(1, 9) for _ in range(rank)]
    rng = np.random.default_rng(pick.randint(0, 99))
    return rng.integers(-2, 3, shape).astype(dtype) if np.dtype(dtype).kind == "f" else numbers(rng, dtype, shape)


@pytest.mark.parametrize("seed", range(60))
def test_pads(seed: int) -> None:
    pick = Random(seed)
    x = array(pick, pick.choice(("float32", "int32", "int64", "uint8", "bool", "float64")), pick.randint(1, 4))
    least = {"low": -3, "high": -3, "interior": 0}
    attrs = {name: tuple(pick.randint(n, 3) for _ in x.shape) for name, n in least.items()}
    value = np.array(1, x.dtype)
    np.testing.assert_array_equal(native("interior_pad", x, value, attrs, pick), padded(x, value, **attrs))


@pytest.mark.parametrize("seed", range(120))
def test_windows(seed: int) -> None:
    """Of reals -2 to 2, whose sums and products of up to 64 are exact in any order; whole numbers wrap."""
    pick = Random(seed)
    logic = pick.random() < 0.2
    reduction = pick.choice(("and", "or") if logic else ("add", "mul", "min", "max"))
    x = array(pick, "bool" if logic else pick.choice(("float32", "int32", "int64", "float64")), pick.randint(1, 3))
    window, strides, base, dilations = (tuple(pick.randint(1, most) for _ in x.shape) for most in (4, 3, 2, 2))
    pads = tuple((pick.randint(-1, 3), pick.randint(-1, 3)) for _ in x.shape)
    attrs = {"window": window, "strides": strides, "base_dilations": base, "dilations": dilations, "pads": pads}
    value = np.array(pick.choice((0, 1)), x.dtype)
    wide = padded(x, value, *zip(*pads, strict=True), [b - 1 for b in base])
    with np.errstate(all="ignore"):
        expected = reduced(wide, value, reduction, window, strides, dilations)
    np.testing.assert_array_equal(native("reduce_window", x, value, attrs | {"reduction": reduction}, pick), expected)
