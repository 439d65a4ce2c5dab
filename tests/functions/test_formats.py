"""Functions that formats have and the graph composes of others, on float32 of every exponent."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastgraph as fg
from tests.circle.write import Model as Tflite
from tests.functions import exact
from tests.functions.numbers import errors, every_exponent, flushed
from tests.mil.mil_write import Program
from tests.tables import entries

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


NAMES = vars(exact) | {"np": np, "f32": f32, "f64": lambda x: single(x).astype(np.float64), "flushed": flushed}
LITERT = """
RSQRT | 1 / np.sqrt(x) | 1.5
LOGISTIC | sigmoid(x) | 2.5
SQUARE | np.square(x) | 0.51
ELU | np.where(x < 0, np.expm1(x), x) | 2
HARD_SWISH | FUNCTIONS["hard_swish"].wide(x) | 2.5
RELU_N1_TO_1 | np.clip(x, -1, 1) | 0
RELU6 | np.clip(x, 0, 6) | 0
SQUARED_DIFFERENCE | f64(x - y) ** 2 | 0.51
FLOOR_DIV | np.floor(flushed(f64(x / y).astype(np.float32))) | 0
ATAN2 | np.arctan2(x, y) | 2
POW | np.power(x, y) | 2
MAXIMUM | np.maximum(x, y) | 0
MINIMUM | np.minimum(x, y) | 0
"""
"""Operator, formula, units in the last place."""
MIL = """
exp2 | np.exp2(x) | 2
erf | erf(x) | 3
atanh | np.arctanh(x) | 0.51
inverse | 1 / f64(x + f32(1e-4)) | 0.51 | epsilon=1e-4
rsqrt | 1 / np.sqrt(f64(x + f32(1e-12))) | 1.5 | epsilon=1e-12
log | np.maximum(np.log(x), np.log(f32(1e-45))) | 1 | epsilon=1e-45
clamped_relu | np.minimum(np.where(x < 0, f32(0.3) * x, x), 6) | 0.51 | alpha=0.3, beta=6
scaled_tanh | f32(1.7) * np.tanh(x / 2) | 4 | alpha=1.7, beta=0.5
sigmoid_hard | np.clip(f32(0.2) * x + 0.5, 0, 1) | 1 | alpha=0.2, beta=0.5 | 1
thresholded_relu | np.where(x >= 1, x, 0) | 0 | alpha=1
silu | x * sigmoid(x) | 3
gelu | x * sigmoid(1.702 * x) | 3 | mode="SIGMOID_APPROXIMATION" | 0.25
softplus_parametric | softplus(f64(2 * x)) / 2 | 4 | alpha=[0.5], beta=[2]
"""
"""The same; parameters; the number whose unit counts at least."""


def formula(text: str) -> Callable[..., Any]:
    return lambda *given: eval(text, NAMES | dict(zip("xy", given, strict=False)))


@pytest.mark.parametrize("name, text, units", entries(LITERT))
def test_tflite(name: str, text: str, units: str) -> None:
    m, count = Tflite(), 2 if re.search(r"\by\b", text) else 1
    inputs = [m.input(X.shape, name=f"i{k}") for k in range(count)]
    (y,) = m.op(name, inputs, [X.shape])
    found = fg.load(m.bytes([y]), threads=1).run({f"i{k}": a for k, a in zip(range(count), (X, Y), strict=False)})
    assert_near(next(iter(found.values())), formula(text), float(units), 0.0, name, count)


@pytest.mark.parametrize("row", entries(MIL), ids=lambda row: row[0])
def test_mil(row: list[str]) -> None:
    name, text, units, params, least = row + [""] * (5 - len(row))
    p, shape = Program(), (1, 1, X.size)
    p.input("x", shape)
    told = eval(f"dict({params})")
    consts = {key: p.const(v) if isinstance(v, str) else np.float32(v) for key, v in told.items()}
    p.output(p.op(name, "y", ("FLOAT32", shape), x="x", **consts))
    found = fg.load(p.zip(), threads=1).run({"x": X.reshape(shape)})["y"]
    assert_near(found, formula(text), float(units), float(least or 0), name)
