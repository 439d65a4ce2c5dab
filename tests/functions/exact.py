"""What functions of one number are: in exact arithmetic by mpmath, and in float64, which is exact enough for results
of float32 and float16 (a test holds it against mpmath). At infinities they are what their formula gives.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from mpmath import mp, mpc, mpf

from tests.tables import entries

PRECISION = 140
"""Bits of mpmath, whose functions take more on the way where they need it."""


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


def number(x: float) -> float:
    """An attribute as files have it."""
    return float(np.float32(x))


PLAIN = (
    "abs ceil floor sign sqrt exp log tanh sin cos tan asin acos atan sinh cosh asinh acosh atanh expm1 log1p".split()
)
FORMULAS = """
neg | -x
round | rint(x)
reciprocal | 1 / x
erf | erf(clip(x, -99, 99))
relu | maximum(x, 0)
sigmoid | sigmoid(x)
softplus | softplus(x)
softsign | x / (1 + abs(x))
mish | x * tanh(softplus(x))
hard_swish | x * clip((x + 3) / 6, 0, 1)
swish | x * sigmoid(alpha * x) | alpha=number(1.5)
leaky_relu | where(x < 0, x * alpha, x) | alpha=number(0.01)
thresholded_relu | where(x > alpha, x, 0) | alpha=1.5
hard_sigmoid | clip(x * alpha + beta, 0, 1) | alpha=number(0.2), beta=0.5
elu | where(x < 0, alpha * expm1(minimum(x, 0)), x) | alpha=1.5
celu | where(x < 0, alpha * expm1(minimum(x, 0) / alpha), x) | alpha=number(0.7)
selu | gamma * where(x < 0, alpha * expm1(minimum(x, 0)), x) | alpha=1.6732631921768188, gamma=1.0507010221481323
gelu | x * erfc(-clip(x, -99, 99) / sqrt(two)) / 2 | approximate='none'
gelu_tanh | x * sigmoid(2 * sqrt(2 / pi) * (x + c * x * x * x)) | approximate='tanh'
shrink | where(x < -lambd, x + bias, where(x > lambd, x - bias, 0)) | lambd=1.5, bias=number(0.2)
"""
"""By operators of the graph; `gelu_tanh` is one of gelu's. In names that mpmath and NumPy have alike."""
WIDE: dict[str, Any] = vars(np) | {"two": 2.0, "c": 0.044715}
WIDE |= {name: one_number(getattr(math, name)) for name in ("sin", "cos", "tan", "erf", "erfc")}
EXACT: dict[str, Any] = {name: getattr(mp, name) for name in [*PLAIN, "erf", "erfc"] if name != "abs"}
EXACT |= {"rint": mp.nint, "maximum": max, "minimum": min, "clip": lambda x, low, high: min(max(x, low), high)}
EXACT |= {"where": lambda c, a, b: a if c else b, "pi": mp.pi, "two": mpf(2), "c": mpf("0.044715")}
for scope in (WIDE, EXACT):  # shares that do not overflow, whatever the sign
    scope["e"] = lambda x, s=scope: s["exp"](-abs(x))
    scope["sigmoid"] = lambda x, s=scope: s["where"](x < 0, s["e"](x), 1) / (1 + s["e"](x))
    scope["softplus"] = lambda x, s=scope: s["maximum"](x, 0) + s["log1p"](s["e"](x))
sigmoid, softplus, erf = WIDE["sigmoid"], WIDE["softplus"], WIDE["erf"]


def evaluated(code: Any, names: dict[str, Any], x: Any) -> Any:
    found = eval(code, names | {"x": x})
    return mpf("nan") if isinstance(found, mpc) else found


def function(formula: str, attrs: str = "") -> Function:
    told, code = eval(f"dict({attrs})"), compile(formula, formula, "eval")
    return Function(partial(evaluated, code, EXACT | told), partial(evaluated, code, WIDE | told), told)


FUNCTIONS = {name: function(f"{name}(x)") for name in PLAIN} | {
    name: function(*row) for name, *row in entries(FORMULAS)
}


def true(name: str, x: np.ndarray) -> np.ndarray:
    """The function of finite and infinite numbers: float64 for float16 and float32, numbers of mpmath for float64."""
    with np.errstate(all="ignore"):
        wide = np.asarray(FUNCTIONS[name].wide(x.astype(np.float64)), np.float64)
        return wide if x.dtype != np.float64 else by_mpmath(name, x, wide)


def by_mpmath(name: str, x: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The function of finite numbers but 0 as numbers of mpmath; `others` elsewhere, and at poles."""
    exact, found = FUNCTIONS[name].exact, others.astype(object)
    with mp.workprec(PRECISION):
        for i in np.flatnonzero(np.isfinite(x) & (x != 0)):
            try:
                found[i] = exact(mpf(float(x[i])))
            except (ValueError, ZeroDivisionError):
                continue
    return found
