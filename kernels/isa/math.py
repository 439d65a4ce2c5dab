"""Vector operations: each one's meaning in NumPy, and its code.

`OPS[name].meaning(*arrays)` takes one array per operand (parameters such as clip's bounds are operands too, usually
constants) and keeps the element type, so that f64 arrays give an oracle; `OPS[name].emit(*values)` writes the operation
on a kernel's values, with a function of `vector_ops.py` where Python's operators don't do. This module imports no
compiler.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class VectorOp(NamedTuple):
    """An operation on f32 vectors."""

    name: str
    arity: int
    meaning: Callable[..., Any]

    @property
    def emit(self) -> Callable[..., Any]:
        """The function that writes it."""
        from .vector_ops import WRITTEN

        return WRITTEN.get(self.name, self.meaning)

    @property
    def emit_roughly(self) -> Callable[..., Any]:
        """The function that writes it for results that are rounded to bf16; the same where there is none for them."""
        from .vector_ops import ROUGHLY

        return ROUGHLY.get(self.name, self.emit)


OPS: dict[str, VectorOp] = {}


def _op(name: str, arity: int, meaning: Callable[..., Any]) -> None:
    OPS[name] = VectorOp(name, arity, meaning)


# -- arithmetic

_op("add", 2, operator.add)
_op("sub", 2, operator.sub)
_op("mul", 2, operator.mul)
_op("fma", 3, lambda a, b, c: a * b + c)
_op("div", 2, operator.truediv)
_op("min", 2, np.minimum)
_op("max", 2, np.maximum)
_op("abs", 1, abs)
_op("neg", 1, operator.neg)
_op("floor", 1, np.floor)
_op("ceil", 1, np.ceil)
_op("round", 1, np.rint)
_op("sqrt", 1, np.sqrt)
_op("rsqrt", 1, lambda x: 1 / np.sqrt(x))
_op("reciprocal", 1, lambda x: 1.0 / x)
_op("square", 1, lambda x: x * x)
_op("sign", 1, np.sign)

# -- elementary functions

_erf = np.vectorize(math.erf, otypes=[np.float64])

_op("pow", 2, np.power)
_op("exp", 1, np.exp)
_op("log", 1, np.log)
_op("tanh", 1, np.tanh)
_op("erf", 1, lambda x: _erf(x).astype(np.asarray(x).dtype))
_op("sin", 1, np.sin)
_op("cos", 1, np.cos)

# -- comparisons (1.0 or 0.0) and selection


def _truth(name: str, compare: Callable[..., Any]) -> None:
    _op(name, 2, lambda a, b: compare(a, b).astype(np.result_type(a, b)))


_truth("equal", np.equal)
_truth("less", np.less)
_truth("less_or_equal", np.less_equal)
_truth("greater", np.greater)
_truth("greater_or_equal", np.greater_equal)
_truth("not_equal", np.not_equal)
_truth("and", np.logical_and)
_truth("or", np.logical_or)
_truth("xor", np.logical_xor)
_op("is_nan", 1, lambda x: np.isnan(x).astype(x.dtype))
_op("is_inf", 1, lambda x: np.isinf(x).astype(x.dtype))
_op("not", 1, lambda x: (x == 0).astype(x.dtype))
_op("where", 3, lambda c, a, b: np.where(c != 0, a, b))

# -- activations

_GELU = math.sqrt(2 / math.pi)


def _elu(x: Any, alpha: Any) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _celu(x: Any, alpha: Any) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, np.ones_like(e)) / (1 + e)


_op("sigmoid", 1, _sigmoid)
_op("swish", 2, lambda x, alpha: x * _sigmoid(alpha * x))
_op("relu", 1, lambda x: np.maximum(x, 0))
_op("clip", 3, lambda x, low, high: np.minimum(np.maximum(x, low), high))
_op("leaky_relu", 2, lambda x, alpha: np.where(x < 0, x * alpha, x))
_op("prelu", 2, lambda x, slope: np.where(x < 0, x * slope, x))
_op("elu", 2, _elu)
_op("selu", 3, lambda x, alpha, gamma: gamma * _elu(x, alpha))
_op("celu", 2, _celu)
_op("thresholded_relu", 2, lambda x, alpha: np.where(x > alpha, x, 0 * alpha))
_op("hard_sigmoid", 3, lambda x, alpha, beta: np.clip(x * alpha + beta, 0, 1))
_op("hard_swish", 1, lambda x: x * (np.clip(x + 3, 0, 6) / 6))
_op("mish", 1, lambda x: x * np.tanh(_softplus(x)))
_op("softplus", 1, _softplus)
_op("softsign", 1, lambda x: x / (1.0 + abs(x)))
_op("gelu", 1, lambda x: 0.5 * x * (1 + OPS["erf"].meaning(x * math.sqrt(0.5))))
_op("gelu_tanh", 1, lambda x: 0.5 * x * (1 + np.tanh(_GELU * (x + 0.044715 * x * x * x))))
