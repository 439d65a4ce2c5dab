"""Code of the operations in `math.py`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from ..lang import Value, choose, fma, intrinsic, is_nan
from . import functions as f
from .trigonometry import cos, sin


def _sqrt(x: Value) -> Value:
    return intrinsic("sqrt", x)


def _sign(x: Value) -> Value:
    # NaN stays; a zero of either sign, and what a run takes for zero, give 0.
    return choose(abs(x) > 0, intrinsic("copysign", x.type(1), x), x + 0.0)


# -- comparisons (1.0 or 0.0)


def _truth(mask: Value, like: Value) -> Value:
    return choose(mask, like.type(1), 0.0)


def _true(x: Value) -> Value:
    return x != 0


def _compared(compare: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    return lambda x, y: _truth(compare(x, y), x)


# -- activations


def _positive(x: Value, yes: Value, no: Value) -> Value:
    """yes where x > 0, no elsewhere (also for NaN)."""
    return choose(x > 0, yes, no)


def _leaky(x: Value, slope: Value) -> Value:
    return choose(x < 0, x * slope, x)


def _gated(x: Value, u: Value) -> Value:
    """x * sigmoid(u)."""
    return x / (1.0 + f.exp(-u))


def _gelu_tanh(x: Value) -> Value:
    # 0.5 * (1 + tanh(u)) = sigmoid(2 * u)
    return _gated(x, x * fma(x * x, 2 * _GELU * 0.044715, 2 * _GELU))


def _mish(x: Value) -> Value:
    # tanh(log(1 + e)) = n / (n + 2) with n = e * (e + 2); 1 in f32 from x = 20 on.
    e = f.exp(f.minimum(x, x.type(20)))
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


def _softplus(x: Value) -> Value:
    tail = f.log1p_unit(f.exp(-abs(x)))
    return f.maximum(x, x.type(0)) + tail


def _elu(x: Value, alpha: Value) -> Value:
    return _positive(x, x, alpha * f.expm1_negative(x))


_GELU = math.sqrt(2 / math.pi)

WRITTEN: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "fma": fma,
    "div": operator.truediv,
    "abs": abs,
    "neg": operator.neg,
    "reciprocal": lambda x: 1.0 / x,
    "square": lambda x: x * x,
    "min": f.minimum,
    "max": f.maximum,
    "floor": f.floor,
    "ceil": f.ceil,
    "round": f.round_even,
    "sqrt": _sqrt,
    "rsqrt": lambda x: 1.0 / _sqrt(x),
    "sign": _sign,
    "pow": f.power,
    "exp": f.exp,
    "log": f.log,
    "tanh": f.tanh,
    "erf": f.erf,
    "sin": sin,
    "cos": cos,
    "equal": _compared(operator.eq),
    "less": _compared(operator.lt),
    "less_or_equal": _compared(operator.le),
    "greater": _compared(operator.gt),
    "greater_or_equal": _compared(operator.ge),
    "not_equal": _compared(operator.ne),
    "and": _compared(lambda x, y: _true(x) & _true(y)),
    "or": _compared(lambda x, y: _true(x) | _true(y)),
    "xor": _compared(lambda x, y: _true(x) ^ _true(y)),
    "is_nan": lambda x: _truth(is_nan(x), x),
    "is_inf": lambda x: _truth(abs(x) == math.inf, x),
    "not": lambda x: _truth(~_true(x), x),
    "where": lambda condition, x, y: choose(_true(condition), x, y),
    "sigmoid": f.sigmoid,
    "swish": lambda x, alpha: _gated(x, alpha * x),
    "relu": lambda x: f.maximum(x, x.type(0)),
    "clip": f.clip,
    "leaky_relu": _leaky,
    "prelu": _leaky,
    "elu": _elu,
    "selu": lambda x, alpha, gamma: gamma * _elu(x, alpha),
    "celu": lambda x, alpha: _positive(x, x, alpha * f.expm1_negative(x / alpha)),
    "thresholded_relu": lambda x, alpha: choose(x > alpha, x, 0.0),
    "hard_sigmoid": lambda x, alpha, beta: f.clamp(fma(x, alpha, beta), 0, 1),
    # x + 3 is exact where it is small, and 6 times the f32 next to 1 / 6 is 1.
    "hard_swish": lambda x: x * (f.clamp(x + 3.0, 0, 6) * (1 / 6)),
    "mish": _mish,
    "softplus": _softplus,
    "softsign": lambda x: x / (1.0 + abs(x)),
    "gelu": f.gelu,
    "gelu_tanh": _gelu_tanh,
}

APPROXIMATE: dict[str, Callable[..., Any]] = {
    "swish": lambda x, alpha: f.approximate_swish(alpha * x, x),
    "gelu": partial(f.gelu, approximate=True),
    "gelu_tanh": f.approximate_gelu_tanh,
}
"""Those of the tiers that round to bf16: within 2**-11 of a result, or 2**-14 where that is more."""
