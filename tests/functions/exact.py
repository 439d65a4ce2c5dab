"""What functions of one number are: in exact arithmetic by mpmath, and in float64, which is exact enough for results
of float32 and float16 (a test holds it against mpmath). At infinities they are what their formula gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpf

PRECISION = 140
"""Bits of mpmath, whose functions take more on the way where they need it."""
GELU = math.sqrt(2 / math.pi)
erf, erfc = (np.vectorize(f, otypes=[np.float64]) for f in (math.erf, math.erfc))


class Function(NamedTuple):
    """`exact` takes a finite number of mpmath and gives one, or NaN; `wide` takes arrays of float64."""

    exact: Callable[[Any], Any]
    wide: Callable[[Any], Any]
    attrs: Mapping[str, Any] = {}


def one_number(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of `math` for arrays: its domain ends in NaN, what is too large is infinite."""

    def of(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan

    return np.vectorize(of, otypes=[np.float64])


def sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def number(x: float) -> float:
    """An attribute as files have it."""
    return float(np.float32(x))


def within(low: float, high: float, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function from `low` to `high`, NaN elsewhere."""
    return lambda x: function(x) if low <= x <= high else mpf("nan")


def _exact_gelu_tanh(x: Any) -> Any:
    inner = mp.sqrt(2 / mp.pi) * (x + mpf(0.044715) * x**3)
    return x * _exact_sigmoid(2 * inner)


def _exact_sigmoid(x: Any) -> Any:
    return mp.exp(x) / (1 + mp.exp(x)) if x < 0 else 1 / (1 + mp.exp(-x))


def _exact_softplus(x: Any) -> Any:
    return max(x, mpf(0)) + mp.log1p(mp.exp(-abs(x)))


def _exact_mish(x: Any) -> Any:
    e = mp.exp(-abs(x))
    share = (2 * e + 1) / (2 * e + 1 + 2 * e * e) if x > 0 else e * (e + 2) / (e * (e + 2) + 2)
    return x * share


def _exact_gelu(x: Any) -> Any:
    if abs(x) > 100:  # erfc is below 1e-2000 or above 2 - 1e-2000
        return x if x > 0 else mpf(0)
    return x * mp.erfc(-x / mp.sqrt(2)) / 2


def _clip(x: Any, low: Any, high: Any) -> Any:
    return min(max(x, low), high)


def _round(x: Any) -> Any:
    return mp.nint(x)


_A, _B, _C, _LEAKY = number(1.5), number(0.2), number(0.7), number(0.01)
_ALPHA, _GAMMA = 1.6732631921768188, 1.0507010221481323
_INF = math.inf

FUNCTIONS: dict[str, Function] = {
    "abs": Function(abs, np.abs),
    "neg": Function(lambda x: -x, np.negative),
    "ceil": Function(mp.ceil, np.ceil),
    "floor": Function(mp.floor, np.floor),
    "round": Function(_round, np.rint),
    "sign": Function(mp.sign, np.sign),
    "sqrt": Function(within(0, _INF, mp.sqrt), np.sqrt),
    "reciprocal": Function(lambda x: 1 / x if x else mpf("inf"), lambda x: 1 / x),
    "exp": Function(mp.exp, np.exp),
    "log": Function(lambda x: mp.log(x) if x > 0 else mpf("nan") if x else -mpf("inf"), np.log),
    "erf": Function(lambda x: mp.erf(x) if abs(x) < 100 else mp.sign(x), erf),
    "tanh": Function(mp.tanh, np.tanh),
    "sin": Function(mp.sin, one_number(math.sin)),
    "cos": Function(mp.cos, one_number(math.cos)),
    "tan": Function(mp.tan, one_number(math.tan)),
    "asin": Function(within(-1, 1, mp.asin), np.arcsin),
    "acos": Function(within(-1, 1, mp.acos), np.arccos),
    "atan": Function(mp.atan, np.arctan),
    "sinh": Function(mp.sinh, np.sinh),
    "cosh": Function(mp.cosh, np.cosh),
    "asinh": Function(mp.asinh, np.arcsinh),
    "acosh": Function(within(1, _INF, mp.acosh), np.arccosh),
    "atanh": Function(
        lambda x: mp.atanh(x) if abs(x) < 1 else mp.sign(x) * mpf("inf") if abs(x) == 1 else mpf("nan"), np.arctanh
    ),
    "expm1": Function(mp.expm1, np.expm1),
    "log1p": Function(lambda x: mp.log1p(x) if x > -1 else mpf("nan") if x < -1 else -mpf("inf"), np.log1p),
    "relu": Function(lambda x: max(x, mpf(0)), lambda x: np.maximum(x, 0)),
    "sigmoid": Function(_exact_sigmoid, sigmoid),
    "softplus": Function(_exact_softplus, softplus),
    "softsign": Function(lambda x: x / (1 + abs(x)), lambda x: x / (1 + np.abs(x))),
    "mish": Function(_exact_mish, lambda x: x * np.tanh(softplus(x))),
    "hard_swish": Function(lambda x: x * _clip(x / 6 + 0.5, 0, 1), lambda x: x * np.clip((x + 3) / 6, 0, 1)),
    "swish": Function(lambda x: x * _exact_sigmoid(_A * x), lambda x: x * sigmoid(_A * x), {"alpha": _A}),
    "leaky_relu": Function(lambda x: x * _LEAKY if x < 0 else x, lambda x: np.where(x < 0, x * _LEAKY, x),
                           {"alpha": _LEAKY}),
    "thresholded_relu": Function(lambda x: x if x > _A else mpf(0), lambda x: np.where(x > _A, x, 0),
                                 {"alpha": _A}),
    "hard_sigmoid": Function(lambda x: _clip(x * _B + 0.5, 0, 1), lambda x: np.clip(x * _B + 0.5, 0, 1),
                             {"alpha": _B, "beta": 0.5}),
    "elu": Function(lambda x: _A * mp.expm1(x) if x < 0 else x, lambda x: np.where(x < 0, _A * np.expm1(x), x),
                    {"alpha": _A}),
    "celu": Function(lambda x: _C * mp.expm1(x / _C) if x < 0 else x,
                     lambda x: np.where(x < 0, _C * np.expm1(x / _C), x), {"alpha": _C}),
    "selu": Function(lambda x: _GAMMA * (_ALPHA * mp.expm1(x) if x < 0 else x),
                     lambda x: _GAMMA * np.where(x < 0, _ALPHA * np.expm1(x), x), {"alpha": _ALPHA, "gamma": _GAMMA}),
    "gelu": Function(_exact_gelu, lambda x: x * erfc(-x * math.sqrt(0.5)) / 2,
                     {"approximate": "none"}),
    "gelu_tanh": Function(_exact_gelu_tanh, lambda x: x * sigmoid(2 * GELU * (x + 0.044715 * x * x * x)),
                          {"approximate": "tanh"}),
    "shrink": Function(
        lambda x: x + _B if x < -_A else x - _B if x > _A else mpf(0),
        lambda x: np.where(x < -_A, x + _B, np.where(x > _A, x - _B, 0)), {"lambd": _A, "bias": _B},
    ),
}  # fmt: skip
"""By operators of the graph; `gelu_tanh` is one of gelu's."""


def true(name: str, x: np.ndarray) -> np.ndarray:
    """The function of finite and infinite numbers: float64 for float16 and float32, numbers of mpmath for float64."""
    function = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        wide = np.asarray(function.wide(x.astype(np.float64)), np.float64)
        if x.dtype != np.float64:
            return wide
        return by_mpmath(name, x, wide)


def by_mpmath(name: str, x: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The function of finite numbers but 0 as numbers of mpmath, `others` elsewhere."""
    function, found = FUNCTIONS[name].exact, others.astype(object)
    with mp.workprec(PRECISION):
        for i in np.flatnonzero(np.isfinite(x) & (x != 0)):
            found[i] = function(mpf(float(x[i])))
    return found
