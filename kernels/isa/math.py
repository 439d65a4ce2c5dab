"""Vector operations: how each is emitted and what it means in NumPy.

`OPS[name].emit(v, *values)` takes one value per operand (parameters such as clip's bounds are operands too,
usually constants); `OPS[name].meaning(*arrays)` is the same in NumPy and keeps the element type, so that
f64 arrays give an oracle. Reading this module does not import llvmlite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..lang.both import both
from . import functions as f

if TYPE_CHECKING:
    from .vector import Vector


class VectorOp(NamedTuple):
    """An operation on f32 vectors."""

    name: str
    arity: int
    emit: Callable[..., Any]
    meaning: Callable[..., Any]


OPS: dict[str, VectorOp] = {}


def _op(name: str, arity: int, meaning: Callable[..., Any], emit: Callable[..., Any]) -> None:
    OPS[name] = VectorOp(name, arity, both(emit), meaning)


# -- arithmetic

_op("add", 2, lambda a, b: a + b, lambda v, a, b: v.b.fadd(a, b))
_op("sub", 2, lambda a, b: a - b, lambda v, a, b: v.b.fsub(a, b))
_op("mul", 2, lambda a, b: a * b, lambda v, a, b: v.b.fmul(a, b))
_op("fma", 3, lambda a, b, c: a * b + c, lambda v, a, b, c: v.fma(a, b, c))
_op("div", 2, lambda a, b: a / b, lambda v, a, b: v.b.fdiv(a, b))
_op("min", 2, np.minimum, f.minimum)
_op("max", 2, np.maximum, f.maximum)
_op("abs", 1, np.abs, lambda v, x: v.call("fabs", x))
_op("neg", 1, lambda x: -x, lambda v, x: v.b.fneg(x))
_op("floor", 1, np.floor, f.floor)
_op("ceil", 1, np.ceil, f.ceil)
_op("round", 1, np.rint, f.round_even)
_op("sqrt", 1, np.sqrt, lambda v, x: v.call("sqrt", x))
_op("rsqrt", 1, lambda x: 1 / np.sqrt(x), lambda v, x: v.b.fdiv(v.const(1), v.call("sqrt", x)))
_op("reciprocal", 1, lambda x: 1 / x, lambda v, x: v.b.fdiv(v.const(1), x))
_op("square", 1, lambda x: x * x, lambda v, x: v.b.fmul(x, x))
_op(
    "sign",
    1,
    np.sign,
    # NaN stays; a zero of either sign, and what a run takes for zero, give 0.
    lambda v, x: v.b.select(
        v.b.fcmp_ordered("one", x, v.const(0)), v.call("copysign", v.const(1), x), v.b.fadd(x, v.const(0))
    ),
)

# -- elementary functions

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sin(v: Vector, x: Any) -> Any:
    from .trigonometry import sin

    return sin(v, x)


def _cos(v: Vector, x: Any) -> Any:
    from .trigonometry import cos

    return cos(v, x)


_op("pow", 2, np.power, f.power)
_op("exp", 1, np.exp, f.exp)
_op("log", 1, np.log, f.log)
_op("tanh", 1, np.tanh, f.tanh)
_op("erf", 1, lambda x: _erf(x).astype(np.asarray(x).dtype), f.erf)
_op("sin", 1, np.sin, _sin)
_op("cos", 1, np.cos, _cos)


# -- comparisons (1.0 or 0.0) and selection


def _truth(v: Vector, mask: Any) -> Any:
    return v.b.select(mask, v.const(1), v.const(0))


def _true(v: Vector, x: Any) -> Any:
    return v.b.fcmp_unordered("une", x, v.const(0))


def _compare(name: str, relation: str, meaning: Callable[..., Any]) -> None:
    _op(
        name,
        2,
        lambda a, b: meaning(a, b).astype(np.result_type(a, b)),
        lambda v, a, b: _truth(v, v.b.fcmp_ordered(relation, a, b)),
    )


_compare("equal", "==", np.equal)
_compare("less", "<", np.less)
_compare("less_or_equal", "<=", np.less_equal)
_compare("greater", ">", np.greater)
_compare("greater_or_equal", ">=", np.greater_equal)
_op(
    "not_equal",
    2,
    lambda a, b: np.not_equal(a, b).astype(np.result_type(a, b)),
    lambda v, a, b: _truth(v, v.b.fcmp_unordered("une", a, b)),
)
_op("is_nan", 1, lambda x: np.isnan(x).astype(x.dtype), lambda v, x: _truth(v, v.b.fcmp_unordered("uno", x, x)))
_op(
    "is_inf",
    1,
    lambda x: np.isinf(x).astype(x.dtype),
    lambda v, x: _truth(v, v.b.fcmp_ordered("==", v.call("fabs", x), v.const(math.inf))),
)
_op("not", 1, lambda x: (x == 0).astype(x.dtype), lambda v, x: _truth(v, v.b.not_(_true(v, x))))
_op(
    "and",
    2,
    lambda a, b: np.logical_and(a, b).astype(np.result_type(a, b)),
    lambda v, a, b: _truth(v, v.b.and_(_true(v, a), _true(v, b))),
)
_op(
    "or",
    2,
    lambda a, b: np.logical_or(a, b).astype(np.result_type(a, b)),
    lambda v, a, b: _truth(v, v.b.or_(_true(v, a), _true(v, b))),
)
_op(
    "xor",
    2,
    lambda a, b: np.logical_xor(a, b).astype(np.result_type(a, b)),
    lambda v, a, b: _truth(v, v.b.xor(_true(v, a), _true(v, b))),
)
_op("where", 3, lambda c, a, b: np.where(c != 0, a, b), lambda v, c, a, b: v.b.select(_true(v, c), a, b))


# -- activations


def _positive(v: Vector, x: Any, yes: Any, no: Any) -> Any:
    """yes where x > 0, no elsewhere (also for NaN)."""
    return v.b.select(v.b.fcmp_ordered(">", x, v.const(0)), yes, no)


def _leaky(v: Vector, x: Any, slope: Any) -> Any:
    return v.b.select(v.b.fcmp_ordered("<", x, v.const(0)), v.b.fmul(x, slope), x)


def _hard_sigmoid(v: Vector, x: Any, alpha: Any, beta: Any) -> Any:
    return f.clamp(v, v.fma(x, alpha, beta), 0, 1)


def _gated(v: Vector, x: Any, u: Any) -> Any:
    """x * sigmoid(u)."""
    return v.b.fdiv(x, v.b.fadd(v.const(1), f.exp(v, v.b.fneg(u))))


def _gelu_tanh(v: Vector, x: Any) -> Any:
    # 0.5 * (1 + tanh(u)) = sigmoid(2 * u)
    u = v.b.fmul(x, v.fma(v.b.fmul(x, x), v.const(2 * _GELU * 0.044715), v.const(2 * _GELU)))
    return _gated(v, x, u)


_GELU = math.sqrt(2 / math.pi)


def _mish(v: Vector, x: Any) -> Any:
    # tanh(log(1 + e)) = n / (n + 2) with n = e * (e + 2); 1 in f32 from x = 20 on.
    e = f.exp(v, f.minimum(v, x, v.const(20)))
    n = v.b.fmul(e, v.b.fadd(e, v.const(2)))
    return v.b.fmul(x, v.b.fdiv(n, v.b.fadd(n, v.const(2))))


def _softplus(v: Vector, x: Any) -> Any:
    tail = f.log1p_unit(v, f.exp(v, v.b.fneg(v.call("fabs", x))))
    return v.b.fadd(f.maximum(v, x, v.const(0)), tail)


def _elu(v: Vector, x: Any, alpha: Any) -> Any:
    return _positive(v, x, x, v.b.fmul(alpha, f.expm1_negative(v, x)))


def _selu(v: Vector, x: Any, alpha: Any, gamma: Any) -> Any:
    return v.b.fmul(gamma, _elu(v, x, alpha))


def _celu(v: Vector, x: Any, alpha: Any) -> Any:
    return _positive(v, x, x, v.b.fmul(alpha, f.expm1_negative(v, v.b.fdiv(x, alpha))))


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
_op("swish", 2, lambda x, alpha: x * _np_sigmoid(alpha * x), lambda v, x, alpha: _gated(v, x, v.b.fmul(alpha, x)))
_op("relu", 1, lambda x: np.maximum(x, 0), lambda v, x: f.maximum(v, x, v.const(0)))
_op(
    "clip",
    3,
    lambda x, low, high: np.minimum(np.maximum(x, low), high),
    f.clip,
)
_op("leaky_relu", 2, lambda x, alpha: np.where(x < 0, x * alpha, x), _leaky)
_op("prelu", 2, lambda x, slope: np.where(x < 0, x * slope, x), _leaky)
_op("elu", 2, _np_elu, _elu)
_op("selu", 3, lambda x, alpha, gamma: gamma * _np_elu(x, alpha), _selu)
_op("celu", 2, _np_celu, _celu)
_op(
    "thresholded_relu",
    2,
    lambda x, alpha: np.where(x > alpha, x, 0 * alpha),
    lambda v, x, alpha: v.b.select(v.b.fcmp_ordered(">", x, alpha), x, v.const(0)),
)
_op("hard_sigmoid", 3, lambda x, alpha, beta: np.clip(x * alpha + beta, 0, 1), _hard_sigmoid)
_op(
    "hard_swish",
    1,
    lambda x: x * (np.clip(x + 3, 0, 6) / 6),
    # x + 3 is exact where it is small, and 6 times the f32 next to 1 / 6 is 1.
    lambda v, x: v.b.fmul(x, v.b.fmul(f.clamp(v, v.b.fadd(x, v.const(3)), 0, 6), v.const(1 / 6))),
)
_op("mish", 1, lambda x: x * np.tanh(_np_softplus(x)), _mish)
_op("softplus", 1, _np_softplus, _softplus)
_op("softsign", 1, lambda x: x / (1 + np.abs(x)), lambda v, x: v.b.fdiv(x, v.b.fadd(v.const(1), v.call("fabs", x))))
_op(
    "gelu",
    1,
    lambda x: 0.5 * x * (1 + OPS["erf"].meaning(x * math.sqrt(0.5))),
    lambda v, x: v.b.fmul(x, f.normal_cdf(v, x)),
)
_op("gelu_tanh", 1, lambda x: 0.5 * x * (1 + np.tanh(_GELU * (x + 0.044715 * x * x * x))), _gelu_tanh)
