"""Functions of each element that are more than one operator, reductions and casts.

Semantics: coremltools/converters/mil/mil/ops/defs/iOS15/{activation, elementwise_unary, elementwise_binary}.py,
iOS15/reduction.py, and iOS17's forms, which let parameters have another floating point type than x.
"""

from __future__ import annotations

import math

import numpy as np

from ...ir import Value
from .call import Call
from .common import alike, axes_in
from .signatures import Alike, Axis, Channel, Gelu, Ints, rule

DTYPES = {name: name for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()}
DTYPES |= {"fp16": "float32", "fp32": "float32", "fp64": "float64"}
"""How the graph holds what `cast` names."""

SMALLEST = float(np.finfo(np.float32).tiny)


def _affine(x: Value, scale: float, shift: float) -> Value:
    y = x if scale == 1 else x * scale
    return y + shift if shift else y


# -- activations


@rule("relu6")
def relu6(c: Call, x: Value) -> Value:
    return c.clip(x, 0, 6)


@rule("clamped_relu")
def clamped_relu(c: Call, x: Value, alpha: float, beta: float) -> Value:
    return c.min(c("leaky_relu", x, alpha=alpha), beta)


@rule("gelu")
def gelu(c: Call, x: Value, mode: Gelu = "exact") -> Value:
    if mode == "sigmoid_approximation":
        return c("swish", x, alpha=1.702)
    return c("gelu", x, approximate="none" if mode == "exact" else "tanh")


@rule("linear_activation")
def linear_activation(c: Call, x: Value, alpha: float, beta: float) -> Value:
    return _affine(x, alpha, beta)


@rule("scaled_tanh")
def scaled_tanh(c: Call, x: Value, alpha: float, beta: float) -> Value:
    return _affine(c.tanh(_affine(x, beta, 0)), alpha, 0)


@rule("thresholded_relu")
def thresholded_relu(c: Call, x: Value, alpha: float) -> Value:
    """x from alpha on, else 0; the graph's operator starts behind its alpha."""
    below = np.nextafter(np.float32(alpha), np.float32(-np.inf))
    return c("thresholded_relu", x, alpha=float(below))


@rule("softplus_parametric")
def softplus_parametric(c: Call, x: Value, alpha: Channel, beta: Channel) -> Value:
    return c("softplus", x * beta) * alpha


# -- arithmetic


@rule("not_equal")
def not_equal(c: Call, x: Alike, y: Alike) -> Value:
    return ~c.equal(x, y)


@rule("floor_div")
def floor_div(c: Call, x: Alike, y: Alike) -> Value:
    whole = x.type.dtype is not None and x.type.dtype.kind in "iu"
    return c("floor_div", x, y) if whole else c.floor(x / y)


@rule("exp2")
def exp2(c: Call, x: Value) -> Value:
    return c("pow", c.number(2, x), x)


def _epsilon(c: Call, x: Value, given: float | None, default: float) -> float:
    """What is added to x. The default is in the program's type: 0 in FLOAT16."""
    if given is not None:
        return given
    said = c.scope.reader.declared.get(x)
    return float((np.float16 if said and said.element == "FLOAT16" else np.float32)(default))


@rule("inverse")
def inverse(c: Call, x: Value, epsilon: float | None = None) -> Value:
    return c.reciprocal(_affine(x, 1, _epsilon(c, x, epsilon, 1e-4)))


@rule("rsqrt")
def rsqrt(c: Call, x: Value, epsilon: float | None = None) -> Value:
    return c.reciprocal(c.sqrt(_affine(x, 1, _epsilon(c, x, epsilon, 1e-12))))


@rule("log")
def log(c: Call, x: Value, epsilon: float | None = None) -> Value:
    """log(x + epsilon). The usual epsilon is denormal: it changes the result where x is 0, and nowhere else."""
    epsilon = _epsilon(c, x, epsilon, 1e-45)
    return c("clip", c.log(x), math.log(epsilon)) if 0 < epsilon < SMALLEST else c.log(_affine(x, 1, epsilon))


@rule("cast")
def cast(c: Call, x: Value, dtype: str) -> Value:
    """Floating point to integers is cut towards 0. FLOAT16 is held in float32: nothing is rounded to it inside."""
    if dtype not in DTYPES:
        c.fail(f"expected its parameter 'dtype' as one of {', '.join(DTYPES)}, found {dtype!r}")
    return c.cast(x, DTYPES[dtype])


@rule("select")
def select(c: Call, cond: Value, a: Value | None = None, b: Value | None = None) -> Value:
    """`a` where `cond` holds, else `b`; without them, the places where it holds, a row each."""
    cond = c.cast(cond, np.bool_)
    if a is not None and b is not None:
        return c("where", cond, *alike(c, a, b))
    if a is not b:
        c.fail("expected both of its parameters 'a' and 'b', or neither")
    return c.turn(c("non_zero", cond), 1, 0)


@rule("identity")
def identity(c: Call, x: Value) -> Value:
    return x


# -- reductions


@rule("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod", "reduce_l1_norm", "reduce_l2_norm")
@rule("reduce_log_sum", "reduce_log_sum_exp", "reduce_sum_square")
def reduce(c: Call, x: Value, axes: Ints | None = None, keep_dims: bool = False) -> Value:
    """Over all axes where none are given."""
    over = [] if axes is None else [c.vector(*axes_in(c, axes, c.rank(x)))]
    op, named = c.op.removesuffix("_norm"), int(axes is not None)
    return c(op, x, *over, keepdims=int(keep_dims), noop_with_empty_axes=named)


@rule("cumsum")
def cumsum(c: Call, x: Value, axis: Axis = 0, exclusive: bool = False, reverse: bool = False) -> Value:
    return c("cum_sum", x, c.vector(axis), exclusive=int(exclusive), reverse=int(reverse))
