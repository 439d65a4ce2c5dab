"""What vector operations and chains of them mean in NumPy, in the type of their arrays: with f64 they are an oracle."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fastgraph.kernels.pointwise.chain import Chain

MEANINGS: dict[str, Callable[..., Any]] = {}


def _op(name: str, meaning: Callable[..., Any]) -> None:
    MEANINGS[name] = meaning


# -- arithmetic

_op("add", operator.add)
_op("sub", operator.sub)
_op("mul", operator.mul)
_op("fma", lambda a, b, c: a * b + c)
_op("div", operator.truediv)
_op("min", np.minimum)
_op("max", np.maximum)
_op("abs", abs)
_op("neg", operator.neg)
_op("floor", np.floor)
_op("ceil", np.ceil)
_op("round", np.rint)
_op("sqrt", np.sqrt)
_op("rsqrt", lambda x: 1 / np.sqrt(x))
_op("reciprocal", lambda x: 1.0 / x)
_op("square", lambda x: x * x)
_op("sign", np.sign)

# -- elementary functions

_erf = np.vectorize(math.erf, otypes=[np.float64])

_op("pow", np.power)
_op("exp", np.exp)
_op("log", np.log)
_op("tanh", np.tanh)
_op("erf", lambda x: _erf(x).astype(np.asarray(x).dtype))
_op("sin", np.sin)
_op("cos", np.cos)

# -- comparisons (1.0 or 0.0) and selection


def _truth(name: str, compare: Callable[..., Any]) -> None:
    _op(name, lambda a, b: compare(a, b).astype(np.result_type(a, b)))


_truth("equal", np.equal)
_truth("less", np.less)
_truth("less_or_equal", np.less_equal)
_truth("greater", np.greater)
_truth("greater_or_equal", np.greater_equal)
_truth("not_equal", np.not_equal)
_truth("and", np.logical_and)
_truth("or", np.logical_or)
_truth("xor", np.logical_xor)
_op("is_nan", lambda x: np.isnan(x).astype(x.dtype))
_op("is_inf", lambda x: np.isinf(x).astype(x.dtype))
_op("not", lambda x: (x == 0).astype(x.dtype))
_op("where", lambda c, a, b: np.where(c != 0, a, b))

# -- activations

_GELU = math.sqrt(2 / math.pi)


def _elu(x: Any, alpha: Any) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, np.ones_like(e)) / (1 + e)


_op("sigmoid", _sigmoid)
_op("swish", lambda x, alpha: x * _sigmoid(alpha * x))
_op("relu", lambda x: np.maximum(x, 0))
_op("clip", lambda x, low, high: np.minimum(np.maximum(x, low), high))
_op("leaky_relu", lambda x, alpha: np.where(x < 0, x * alpha, x))
_op("prelu", lambda x, slope: np.where(x < 0, x * slope, x))
_op("elu", _elu)
_op("selu", lambda x, alpha, gamma: gamma * _elu(x, alpha))
_op("celu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)))
_op("thresholded_relu", lambda x, alpha: np.where(x > alpha, x, 0 * alpha))
_op("hard_sigmoid", lambda x, alpha, beta: np.clip(x * alpha + beta, 0, 1))
_op("hard_swish", lambda x: x * (np.clip(x + 3, 0, 6) / 6))
_op("mish", lambda x: x * np.tanh(_softplus(x)))
_op("softplus", _softplus)
_op("softsign", lambda x: x / (1.0 + abs(x)))
_op("gelu", lambda x: 0.5 * x * (1 + MEANINGS["erf"](x * math.sqrt(0.5))))
_op("gelu_tanh", lambda x: 0.5 * x * (1 + np.tanh(_GELU * (x + 0.044715 * x * x * x))))


def eval_chain(chain: Chain, arrays: Sequence[Any]) -> np.ndarray:
    """The reference of a chain: f32 arrays in, their broadcast f32 result out (f64 arrays give an f64 oracle)."""
    values = [np.asarray(a) for a in arrays]
    with np.errstate(all="ignore"):
        for name, *operands in chain:
            taken = [values[o] if isinstance(o, int) else values[0].dtype.type(o) for o in operands]
            values.append(np.asarray(MEANINGS[str(name)](*taken), values[0].dtype))
    return values[-1] if chain else values[0]
