"""Activation functions.

Semantics: coremltools/converters/mil/mil/ops/defs/iOS15/activation.py; iOS17's forms let parameters have another
floating point type than x.
"""

from __future__ import annotations

import numpy as np

from ...ir import Value
from ..core.common import scalar
from .call import Call, rule
from .common import one_to_one, per_channel

one_to_one({name: name for name in ("relu", "sigmoid", "softplus", "softsign")}, "x")


def _affine(c: Call, x: Value, scale: float, shift: float) -> Value:
    y = x if scale == 1 else c.add("mul", [x, scalar(c, scale, x)])
    return y if shift == 0 else c.add("add", [y, scalar(c, shift, x)])


def _number(c: Call, key: str) -> float:
    found = c.known(key)
    if isinstance(found, str) or np.size(found) != 1:
        c.fail(f"expected its parameter {key!r} to be a number, found {found!r}")
    return float(np.asarray(found).reshape(()))


@rule("relu6")
def relu6(c: Call) -> None:
    x = c.x()
    c.finish("clip", [x, scalar(c, 0, x), scalar(c, 6, x)])


@rule("clamped_relu")
def clamped_relu(c: Call) -> None:
    """min(beta, x) where x is positive, else min(beta, alpha * x)."""
    x, alpha, beta = c.x(), _number(c, "alpha"), _number(c, "beta")
    c.finish("min", [c.add("leaky_relu", [x], alpha=alpha), scalar(c, beta, x)])


@rule("elu")
def elu(c: Call) -> None:
    c.finish("elu", [c.x()], alpha=_number(c, "alpha"))


@rule("leaky_relu")
def leaky_relu(c: Call) -> None:
    c.finish("leaky_relu", [c.x()], alpha=_number(c, "alpha"))


@rule("silu")
def silu(c: Call) -> None:
    c.finish("swish", [c.x()], alpha=1.0)


@rule("gelu")
def gelu(c: Call) -> None:
    mode = c.text("mode", "exact", "tanh_approximation", "sigmoid_approximation", default="EXACT")
    if mode == "sigmoid_approximation":
        c.finish("swish", [c.x()], alpha=1.702)
    else:
        c.finish("gelu", [c.x()], approximate="none" if mode == "exact" else "tanh")


@rule("linear_activation")
def linear_activation(c: Call) -> None:
    c.give(_affine(c, c.x(), _number(c, "alpha"), _number(c, "beta")))


@rule("scaled_tanh")
def scaled_tanh(c: Call) -> None:
    """alpha * tanh(beta * x)."""
    scaled = _affine(c, c.x(), _number(c, "beta"), 0)
    c.give(_affine(c, c.add("tanh", [scaled]), _number(c, "alpha"), 0))


@rule("sigmoid_hard")
def sigmoid_hard(c: Call) -> None:
    c.finish("hard_sigmoid", [c.x()], alpha=_number(c, "alpha"), beta=_number(c, "beta"))


@rule("thresholded_relu")
def thresholded_relu(c: Call) -> None:
    """x from alpha on, else 0; the graph's operator starts behind its alpha."""
    below = np.nextafter(np.float32(_number(c, "alpha")), np.float32(-np.inf))
    c.finish("thresholded_relu", [c.x()], alpha=float(below))


@rule("prelu")
def prelu(c: Call) -> None:
    x = c.x()
    c.x("alpha")
    c.finish("prelu", [x, per_channel(c, "alpha", x)])


@rule("softplus_parametric")
def softplus_parametric(c: Call) -> None:
    """alpha * log(1 + exp(beta * x)), both parameters per channel."""
    x = c.x()
    c.x("alpha"), c.x("beta")
    scaled = c.add("mul", [x, per_channel(c, "beta", x)])
    c.finish("mul", [c.add("softplus", [scaled]), per_channel(c, "alpha", x)])


@rule("softmax")
def softmax(c: Call) -> None:
    c.finish("softmax", [c.x()], axis=c.known("axis", -1))
