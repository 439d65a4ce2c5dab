"""Vector operations: how each is emitted and what it means in NumPy.

`OPS[name].emit(*values)` takes one value per operand (parameters such as clip's bounds are operands too, usually
constants); `OPS[name].meaning(*arrays)` is the same in NumPy and keeps the element type, so that f64 arrays give an
oracle. Where Python's operators say it all, one function is both. Reading this module does not import llvmlite.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..lang import Value, choose, fma, intrinsic, is_nan
from . import functions as f


class VectorOp(NamedTuple):
    """An operation on f32 vectors."""

    name: str
    arity: int
    emit: Callable[..., Any]
    meaning: Callable[..., Any]


OPS: dict[str, VectorOp] = {}


def _op(name: str, arity: int, meaning: Callable[..., Any], emit: Callable[..., Any] | None = None) -> None:
    OPS[name] = VectorOp(name, arity, emit or meaning, meaning)


# -- arithmetic

_op("add", 2, operator.add)
_op("sub", 2, operator.sub)
_op("mul", 2, operator.mul)
_op("fma", 3, lambda a, b, c: a * b + c, fma)
_op("div", 2, operator.truediv)
_op("min", 2, np.minimum, f.minimum)
_op("max", 2, np.maximum, f.maximum)
_op("abs", 1, abs)
_op("neg", 1, operator.neg)
_op("floor", 1, np.floor, f.floor)
_op("ceil", 1, np.ceil, f.ceil)
_op("round", 1, np.rint, f.round_even)


def _sqrt(x: Value) -> Value:
    return intrinsic("sqrt", x)


def _sign(x: Value) -> Value:
    # NaN stays; a zero of either sign, and what a run takes for zero, give 0.
    one = intrinsic("copysign", x.type(1), x)
    return choose((x < 0) | (x > 0), one, x + 0.0)


_op("sqrt", 1, np.sqrt, _sqrt)
_op("rsqrt", 1, lambda x: 1 / np.sqrt(x), lambda x: 1.0 / _sqrt(x))
_op("reciprocal", 1, lambda x: 1.0 / x)
_op("square", 1, lambda x: x * x)
_op("sign", 1, np.sign, _sign)

# -- elementary functions

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sin(x: Value) -> Value:
    from .trigonometry import sin

    return sin(x)


def _cos(x: Value) -> Value:
    from .trigonometry import cos

    return cos(x)


_op("pow", 2, np.power, f.power)
_op("exp", 1, np.exp, f.exp)
_op("log", 1, np.log, f.log)
_op("tanh", 1, np.tanh, f.tanh)
_op("erf", 1, lambda x: _erf(x).astype(np.asarray(x).dtype), f.erf)
_op("sin", 1, np.sin, _sin)
_op("cos", 1, np.cos, _cos)


# -- comparisons (1.0 or 0.0) and selection


def _truth(mask: Value, like: Value) -> Value:
    return choose(mask, like.type(1), 0.0)


def _true(x: Value) -> Value:
    return x != 0


def _compare(name: str, compare: Callable[..., Any], meaning: Callable[..., Any] | None = None) -> None:
    """A comparison or an operation on truths: `compare` of values and, where there is no `meaning`, of arrays."""
    of_arrays = meaning or compare
    _op(
        name,
        2,
        lambda a, b: of_arrays(a, b).astype(np.result_type(a, b)),
        lambda a, b: _truth(compare(a, b), a),
    )


_compare("equal", operator.eq)
_compare("less", operator.lt)
_compare("less_or_equal", operator.le)
_compare("greater", operator.gt)
_compare("greater_or_equal", operator.ge)
_compare("not_equal", operator.ne)
_compare("and", lambda a, b: _true(a) & _true(b), np.logical_and)
_compare("or", lambda a, b: _true(a) | _true(b), np.logical_or)
_compare("xor", lambda a, b: _true(a) ^ _true(b), np.logical_xor)
_op("is_nan", 1, lambda x: np.isnan(x).astype(x.dtype), lambda x: _truth(is_nan(x), x))
_op("is_inf", 1, lambda x: np.isinf(x).astype(x.dtype), lambda x: _truth(abs(x) == math.inf, x))
_op("not", 1, lambda x: (x == 0).astype(x.dtype), lambda x: _truth(~_true(x), x))
_op("where", 3, lambda c, a, b: np.where(c != 0, a, b), lambda c, a, b: choose(_true(c), a, b))


# -- activations


def _positive(x: Value, yes: Value, no: Value) -> Value:
    """yes where x > 0, no elsewhere (also for NaN)."""
    return choose(x > 0, yes, no)


def _leaky(x: Value, slope: Value) -> Value:
    return choose(x < 0, x * slope, x)


def _hard_sigmoid(x: Value, alpha: Value, beta: Value) -> Value:
    return f.clamp(fma(x, alpha, beta), 0, 1)


def _gated(x: Value, u: Value) -> Value:
    """x * sigmoid(u)."""
    return x / (1.0 + f.exp(-u))


def _gelu_tanh(x: Value) -> Value:
    # 0.5 * (1 + tanh(u)) = sigmoid(2 * u)
    return _gated(x, x * fma(x * x, 2 * _GELU * 0.044715, 2 * _GELU))


_GELU = math.sqrt(2 / math.pi)


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


def _selu(x: Value, alpha: Value, gamma: Value) -> Value:
    return gamma * _elu(x, alpha)


def _celu(x: Value, alpha: Value) -> Value:
    return _positive(x, x, alpha * f.expm1_negative(x / alpha))


def _np_elu(x: Any, alpha: Any) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _np_celu(x: Any, alpha: Any) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def _np_softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _np_sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, np.ones_like(e)) / (1 + e)


_op("sigmoid", 1, _np_sigmoid, f.sigmoid)
_op("swish", 2, lambda x, alpha: x * _np_sigmoid(alpha * x), lambda x, alpha: _gated(x, alpha * x))
_op("relu", 1, lambda x: np.maximum(x, 0), lambda x: f.maximum(x, x.type(0)))
_op("clip", 3, lambda x, low, high: np.minimum(np.maximum(x, low), high), f.clip)
_op("leaky_relu", 2, lambda x, alpha: np.where(x < 0, x * alpha, x), _leaky)
_op("prelu", 2, lambda x, slope: np.where(x < 0, x * slope, x), _leaky)
_op("elu", 2, _np_elu, _elu)
_op("selu", 3, lambda x, alpha, gamma: gamma * _np_elu(x, alpha), _selu)
_op("celu", 2, _np_celu, _celu)
_op(
    "thresholded_relu",
    2,
    lambda x, alpha: np.where(x > alpha, x, 0 * alpha),
    lambda x, alpha: choose(x > alpha, x, 0.0),
)
_op("hard_sigmoid", 3, lambda x, alpha, beta: np.clip(x * alpha + beta, 0, 1), _hard_sigmoid)
_op(
    "hard_swish",
    1,
    lambda x: x * (np.clip(x + 3, 0, 6) / 6),
    # x + 3 is exact where it is small, and 6 times the f32 next to 1 / 6 is 1.
    lambda x: x * (f.clamp(x + 3.0, 0, 6) * (1 / 6)),
)
_op("mish", 1, lambda x: x * np.tanh(_np_softplus(x)), _mish)
_op("softplus", 1, _np_softplus, _softplus)
_op("softsign", 1, lambda x: x / (1.0 + abs(x)))
_op("gelu", 1, lambda x: 0.5 * x * (1 + OPS["erf"].meaning(x * math.sqrt(0.5))), lambda x: x * f.normal_cdf(x))
_op("gelu_tanh", 1, lambda x: 0.5 * x * (1 + np.tanh(_GELU * (x + 0.044715 * x * x * x))), _gelu_tanh)
