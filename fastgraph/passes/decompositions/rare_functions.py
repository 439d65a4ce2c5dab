"""Functions without kernels, as compositions of those that have one."""

from __future__ import annotations

import numpy as np

from ...ir import FLOAT32, FLOAT64, Node, Value
from ...ops.registry import attr
from ...rules.rule import rule
from ...rules.sweep import Sweep

OVERFLOWING = 1400.0
"""A number whose sinh and cosh overflow, but not the root of its exponential."""
HUGE = 1e300
"""More than any f32, so that infinities stay infinite when divided by it."""
ASYMPTOTIC = 2.0**28
"""From here on asinh and acosh differ by log(x / ASYMPTOTIC) from their value there, to all bits."""


@rule("early", "tan asin acos atan sinh cosh asinh acosh atanh expm1 log1p celu")
def rare(g: Sweep, node: Node) -> bool:
    """The function of f32 or f64 by functions that have kernels for f64."""
    dtype = node.x.type.dtype
    if dtype not in (FLOAT32, FLOAT64) or not node.x.type.concrete:
        return False

    if node.op == "celu":
        return dtype == FLOAT32 and _falling_celu(g, node)
    if node.op == "tan":
        return g.becomes(g("sin", node.x) / g("cos", node.x))
    if dtype == FLOAT64 and node.op in ("expm1", "log1p", "atan"):
        return False
    return g.becomes(g.cast(_by_f64(g, node.op, g.cast(node.x, FLOAT64), dtype == FLOAT64), dtype))


def _falling_celu(g: Sweep, node: Node) -> bool:
    """CELU with a negative alpha, by exponentials of numbers above 0: its kernels take those of numbers below."""
    x, alpha = node.x, float(attr(node, "alpha"))
    return alpha < 0 and g.becomes(g.max(x, 0.0) + g.min(g("expm1", x / alpha) * alpha, 0.0))


def _by_f64(g: Sweep, op: str, x: Value, large: bool) -> Value:
    """The function of x, in f64. `large`: whether finite x may have infinite squares."""
    size = abs(x) if op in ("sinh", "cosh", "asinh", "atanh") else x
    match op:
        case "sinh":  # (t + t / e) / 2 * (e + 1 / e) with e = exp(|x| / 2) = t + 1
            t = g("expm1", g.min(size, OVERFLOWING) * 0.5)
            e = t + 1.0
            y = (t + t / e) * 0.5 * (e + g.reciprocal(e))
        case "cosh":  # (e * e + 1 / (e * e)) / 2
            e = g.exp(g.min(size, OVERFLOWING) * 0.5)
            return e * 0.5 * e + 0.5 / e / e
        case "asinh":
            near = g.min(size, ASYMPTOTIC) if large else size
            square = near * near
            root = g.sqrt(square + 1.0) + 1.0
            share = square / (root if large else g.min(root, HUGE))
            y = _extended(g, g("log1p", near + share), size, large)
        case "acosh":  # a root of each factor, so that there is none below 1
            t = (g.min(x, ASYMPTOTIC) if large else x) - 1.0
            root = g.sqrt(t) * g.sqrt(t + 2.0)
            return _extended(g, g("log1p", t + root), x, large)
        case "atanh":
            y = g("log1p", size * 2.0 / (1.0 - size)) * 0.5
        case "asin":
            return g("atan", x / g.sqrt((1.0 - x) * (x + 1.0)))
        case "acos":
            return g("atan", g.sqrt((1.0 - x) / (x + 1.0))) * 2.0
        case _:
            return g(op, x)
    return g("copysign", y, x)


def _extended(g: Sweep, y: Value, x: Value, large: bool) -> Value:
    """asinh or acosh of min(x, ASYMPTOTIC), plus log(x / ASYMPTOTIC) for larger x."""
    return y + g.log(g.max(x * (1 / ASYMPTOTIC), 1.0)) if large else y


POWERS = (3, 4, -2, -3, -4)
"""Exponents for which products are faster than a logarithm."""


@rule("common", "pow")
def power(g: Sweep, node: Node) -> bool:
    """x**n for a small whole n as products, of 1 / x where n < 0: a product overflows only where the power does."""
    x, exponent = node.x, node.const(1)
    if exponent is None or exponent.size != 1 or float(exponent.item()) not in POWERS:
        return False
    if x.type.dtype != np.float32 or not x.type.concrete or x.type.shape != node.out.type.shape:
        return False
    n = int(exponent.item())
    base = x if n > 0 else g.reciprocal(x)
    square = base * base
    return g.becomes(square if abs(n) == 2 else square * (base if abs(n) == 3 else square))
