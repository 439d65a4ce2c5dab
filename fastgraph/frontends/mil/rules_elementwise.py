"""Functions of each element that are more than one operator, reductions and casts.

Semantics: coremltools/converters/mil/mil/ops/defs/iOS15/{activation, elementwise_unary, elementwise_binary}.py,
iOS15/reduction.py, and iOS17's forms, which let parameters have another floating point type than x.
"""

from __future__ import annotations

import math

import numpy as np

from ...ir import Value
from ..core.common import floor_div
from .call import Call
from .common import alike, axes_in
from .signatures import Formulas, formulas, rule

DTYPES = {"bool": "bool", "fp16": "float32", "fp32": "float32", "fp64": "float64"}
DTYPES |= {name: name for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()}
"""How the graph holds what `cast` names."""

SMALLEST = float(np.finfo(np.float32).tiny)


def _affine(x: Value, scale: float, shift: float) -> Value:
    y = x if scale == 1 else x * scale
    return y + shift if shift else y


def _epsilon(c: Call, x: Value, given: float | None, default: float) -> float:
    """The epsilon that is added to x. The default is in the program's type: 0 in FLOAT16."""
    if given is not None:
        return given
    said = c.scope.reader.declared.get(x)
    return float((np.float16 if said and said.element == "FLOAT16" else np.float32)(default))


def _behind(alpha: float) -> float:
    """The number just before alpha, from which on thresholded_relu keeps x; the graph's operator starts behind it."""
    return float(np.nextafter(np.float32(alpha), np.float32(-np.inf)))


FORMULAS: Formulas = {
    "clamped_relu: x alpha:float beta:float": lambda c, x, alpha, beta: c.min(c("leaky_relu", x, alpha=alpha), beta),
    "exp2: x": lambda c, x: c.number(2, x) ** x,
    "floor_div: x:Alike y:Alike": floor_div,
    "gelu: x mode:Gelu=exact": lambda c, x, mode: (
        c("swish", x, alpha=1.702) if mode == "sigmoid" else c("gelu", x, approximate=mode)
    ),
    "identity: x": lambda c, x: x,
    "inverse: x epsilon:float?": lambda c, x, epsilon: c.reciprocal(_affine(x, 1, _epsilon(c, x, epsilon, 1e-4))),
    "linear_activation: x alpha:float beta:float": lambda c, x, alpha, beta: _affine(x, alpha, beta),
    "not_equal: x:Alike y:Alike": lambda c, x, y: ~c.equal(x, y),
    "relu6: x": lambda c, x: c.clip(x, 0, 6),
    "rsqrt: x epsilon:float?": lambda c, x, epsilon: c.reciprocal(
        c.sqrt(_affine(x, 1, _epsilon(c, x, epsilon, 1e-12)))
    ),
    "scaled_tanh: x alpha:float beta:float": lambda c, x, alpha, beta: _affine(c.tanh(_affine(x, beta, 0)), alpha, 0),
    "softplus_parametric: x alpha:Channel beta:Channel": lambda c, x, alpha, beta: c("softplus", x * beta) * alpha,
    "thresholded_relu: x alpha:float": lambda c, x, alpha: c("thresholded_relu", x, alpha=_behind(alpha)),
}
formulas(FORMULAS)


@rule("log: x epsilon:float?")
def log(c: Call, x: Value, epsilon: float | None) -> Value:
    """log(x + epsilon). The usual epsilon is denormal: it changes the result where x is 0, and nowhere else."""
    epsilon = _epsilon(c, x, epsilon, 1e-45)
    return c("clip", c.log(x), math.log(epsilon)) if 0 < epsilon < SMALLEST else c.log(_affine(x, 1, epsilon))


@rule("cast: x dtype:str")
def cast(c: Call, x: Value, dtype: str) -> Value:
    """Floating point to integers is cut towards 0. FLOAT16 is held in float32: nothing is rounded to it inside."""
    if dtype not in DTYPES:
        c.fail(f"expected its parameter 'dtype' as one of {', '.join(DTYPES)}, found {dtype!r}")
    return c.cast(x, DTYPES[dtype])


@rule("select: cond a? b?")
def select(c: Call, cond: Value, a: Value | None, b: Value | None) -> Value:
    """`a` where `cond` holds, else `b`; without them, the places where it holds, a row each."""
    cond = c.cast(cond, np.bool_)
    if a is not None and b is not None:
        return c("where", cond, *alike(c, a, b))
    if a is not b:
        c.fail("expected both of its parameters 'a' and 'b', or neither")
    return c.transpose(c("non_zero", cond), 1, 0)


@rule("""reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_l1_norm reduce_l2_norm reduce_log_sum
  reduce_log_sum_exp reduce_sum_square: x axes:Ints? keep_dims:flag=0""")
def reduce(c: Call, x: Value, axes: tuple[int, ...] | None, keep_dims: bool) -> Value:
    """A reduction, over all axes where none are given."""
    over = [] if axes is None else [c.vector(*axes_in(c, axes, c.rank(x)))]
    op, named = c.op.removesuffix("_norm"), int(axes is not None)
    return c(op, x, *over, keepdims=keep_dims, noop_with_empty_axes=named)
