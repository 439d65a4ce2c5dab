"""Functions of f64, by those that kernels have in f64; and the few that they have of no type."""

from __future__ import annotations

import math

from ..ir import FLOAT64, Node, Value
from ..ops.registry import attr
from ..rules.rule import rule
from ..rules.sweep import Sweep


@rule(
    "f64",
    "sigmoid tanh softplus softsign mish hard_swish hard_sigmoid swish leaky_relu thresholded_relu elu celu selu gelu",
)
def double(g: Sweep, node: Node) -> bool:
    """Given ``y = sigmoid(x)`` in f64; result ``1 / (1 + exp(-x))``, and so on."""
    known = all(v is not None and v.type.concrete for v in (*node.inputs, node.out))
    return node.x.type.dtype == FLOAT64 and known and g.becomes(_by_others(g, node, node.x))


def _by_others(g: Sweep, node: Node, x: Value) -> Value:
    """The node's result for x, by operators that have kernels."""

    def number(name: str) -> float:
        return float(attr(node, name))

    match node.op:
        case "sigmoid":
            return _sigmoid(g, x)
        case "tanh":
            return _tanh(g, x)
        case "softplus":
            return _softplus(g, x)
        case "softsign":
            return x / (abs(x) + 1.0)
        case "mish":
            return x * _tanh(g, _softplus(g, x))
        case "hard_swish":
            return x * (g.min(g.max(x + 3.0, 0.0), 6.0) / 6.0)
        case "hard_sigmoid":
            return g.min(g.max(x * number("alpha") + number("beta"), 0.0), 1.0)
        case "swish":
            return x * _sigmoid(g, x * number("alpha"))
        case "leaky_relu":
            return g.choose(x < 0.0, x * number("alpha"), x)
        case "thresholded_relu":
            return g.choose(x > number("alpha"), x, 0.0)
        case "elu":
            return g.choose(x < 0.0, g("expm1", x) * number("alpha"), x)
        case "celu":
            alpha = number("alpha")
            return g.max(x, 0.0) + g.min(g("expm1", x / alpha) * alpha, 0.0)
        case "selu":
            below = g("expm1", x) * number("alpha")
            return g.choose(x <= 0.0, below, x) * number("gamma")
        case "gelu":
            return _gelu(g, x, attr(node, "approximate") == "tanh")
        case _:
            raise AssertionError(node.op)


def _sigmoid(g: Sweep, x: Value) -> Value:
    return g.reciprocal(g.exp(-x) + 1.0)


def _tanh(g: Sweep, x: Value) -> Value:
    """e / (e + 2) with e = exp(2 |x|) - 1; from 22 on it is 1."""
    size = g.min(abs(x), 22.0)
    e = g("expm1", size + size)
    return g("copysign", e / (e + 2.0), x)


def _softplus(g: Sweep, x: Value) -> Value:
    return g.max(x, 0.0) + g("log1p", g.exp(-abs(x)))


def _gelu(g: Sweep, x: Value, by_tanh: bool) -> Value:
    if by_tanh:
        cube = x * x * (x * 0.044715)
        return x * _sigmoid(g, (x + cube) * (2 * math.sqrt(2 / math.pi)))
    return x * 0.5 * (g("erf", x * math.sqrt(0.5)) + 1.0)


@rule("f64", "pow")
def square(g: Sweep, node: Node) -> bool:
    """x**2 of f64 as a product."""
    x, exponent = node.x, node.const(1)
    if x.type.dtype != FLOAT64 or exponent is None or exponent.size != 1 or exponent.item() != 2:
        return False
    if not x.type.concrete or x.type.shape != node.out.type.shape:
        return False
    return g.becomes(x * x)
