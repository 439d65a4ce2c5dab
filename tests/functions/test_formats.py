"""Functions that formats have and the graph composes of others, on float32 of every exponent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.circle.write import Model as Tflite
from tests.functions import exact
from tests.functions.numbers import errors, every_exponent, flushed
from tests.mil.mil_write import Program
from tests.nets import F32

X = every_exponent("float32", 4)
Y = np.random.default_rng(3).permutation(X)


def assert_near(found: Any, function: Any, units: float, least: float = 0.0, name: str = "", count: int = 1) -> None:
    """The function of X (or of X and Y), within so many units."""
    far = []
    with np.errstate(all="ignore"):
        for x, y in ((X, Y), (flushed(X), flushed(Y))):
            given = (x.astype(np.float64), y.astype(np.float64))[:count]
            far.append(errors(np.asarray(found).reshape(-1), np.asarray(function(*given), np.float64), least))
    bad = np.flatnonzero(~(np.minimum(*far) <= units))
    assert not len(bad), (name, len(bad), [(X[i], Y[i], found.reshape(-1)[i]) for i in bad[:5]])


def f32(x: float) -> float:
    return float(np.float32(x))


def single(x: Any) -> Any:
    return np.asarray(x).astype(np.float32)


LITERT: dict[str, tuple[Any, float]] = {
    "RSQRT": (lambda x: 1 / np.sqrt(x), 1.5), "LOGISTIC": (exact.sigmoid, 2.5), "SQUARE": (np.square, 0.51),
    "ELU": (lambda x: np.where(x < 0, np.expm1(x), x), 2), "HARD_SWISH": (exact.FUNCTIONS["hard_swish"].wide, 2.5),
    "RELU_N1_TO_1": (lambda x: np.clip(x, -1, 1), 0), "RELU6": (lambda x: np.clip(x, 0, 6), 0),
}  # fmt: skip
LITERT_OF_TWO: dict[str, tuple[Any, float]] = {
    "SQUARED_DIFFERENCE": (lambda x, y: single(x - y).astype(np.float64) ** 2, 0.51),
    "FLOOR_DIV": (lambda x, y: np.floor(flushed(single(x / y))), 0), "ATAN2": (np.arctan2, 2), "POW": (np.power, 2),
    "MAXIMUM": (np.maximum, 0), "MINIMUM": (np.minimum, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", [*LITERT, *LITERT_OF_TWO])
def test_tflite(name: str) -> None:
    function, units = (LITERT | LITERT_OF_TWO)[name]
    m = Tflite()
    inputs = [m.input(X.shape, name=f"i{k}") for k in range(2 if name in LITERT_OF_TWO else 1)]
    (y,) = m.op(name, inputs, [X.shape])
    model = fg.load(m.bytes([y]), threads=1)
    found = model.run({f"i{k}": a for k, a in zip(range(len(inputs)), (X, Y), strict=False)})
    assert_near(next(iter(found.values())), function, units, 0.0, name, len(inputs))


EPSILON = f32(1e-12)
MIL: dict[str, tuple[dict[str, Any], Any, float, float]] = {
    "exp2": ({}, np.exp2, 2, 0),
    "erf": ({}, exact.erf, 3, 0),
    "atanh": ({}, np.arctanh, 0.51, 0),
    "inverse": ({"epsilon": F32.type(1e-4)}, lambda x: 1 / np.float32(x + f32(1e-4)).astype(float), 0.51, 0),
    "rsqrt": ({"epsilon": F32.type(1e-12)}, lambda x: 1 / np.sqrt(np.float32(x + EPSILON).astype(float)), 1.5, 0),
    "log": ({"epsilon": F32.type(1e-45)}, lambda x: np.maximum(np.log(x), np.log(f32(1e-45))), 1, 0),
    "clamped_relu": ({"alpha": F32.type(0.3), "beta": F32.type(6)},
                     lambda x: np.minimum(np.where(x < 0, f32(0.3) * x, x), 6), 0.51, 0),
    "scaled_tanh": ({"alpha": F32.type(1.7), "beta": F32.type(0.5)}, lambda x: f32(1.7) * np.tanh(x / 2), 4, 0),
    "sigmoid_hard": ({"alpha": F32.type(0.2), "beta": F32.type(0.5)},
                     lambda x: np.clip(f32(0.2) * x + 0.5, 0, 1), 1, 1),
    "thresholded_relu": ({"alpha": F32.type(1)}, lambda x: np.where(x >= 1, x, 0), 0, 0),
    "silu": ({}, lambda x: x * exact.sigmoid(x), 3, 0),
    "gelu": ({"mode": "SIGMOID_APPROXIMATION"}, lambda x: x * exact.sigmoid(1.702 * x), 3, 0.25),
    "softplus_parametric": ({"alpha": np.float32([0.5]), "beta": np.float32([2])},
                            lambda x: exact.softplus(single(2 * x).astype(np.float64)) / 2, 4, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", MIL)
def test_mil(name: str) -> None:
    params, function, units, least = MIL[name]
    p, shape = Program(), (1, 1, X.size)
    p.input("x", shape)
    consts = {key: p.const(value) if isinstance(value, str) else value for key, value in params.items()}
    p.output(p.op(name, "y", ("FLOAT32", shape), x="x", **consts))
    found = fg.load(p.zip(), threads=1).run({"x": X.reshape(shape)})["y"]
    assert_near(found, function, units, least, name)
