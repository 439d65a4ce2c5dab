"""Functions that few networks have, by those that have kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir import Node, TensorType, Value
from ..rewrite import Sweep, constant
from .element_types import F32, F64, cast


def rare(state: Sweep, node: Node) -> bool:
    """Functions that few networks have, of f32 and f64, by those that kernels have in f64."""
    dtype = node.x.type.dtype
    if dtype not in (F32, F64) or not node.x.type.concrete:
        return False

    def do(op: str, *values: Value | float) -> Value:
        own = [v if isinstance(v, Value) else constant(node.out, np.array(v, F64), "number") for v in values]
        return state.add(op, [*own], TensorType(F64, node.out.type.shape), node)

    x = node.x
    if node.op == "tan":
        y = state.add("div", [state.add(f, [x], x.type, node) for f in ("sin", "cos")], x.type, node)
    else:
        x = cast(state, node, x, F64)
        if dtype == F64 and node.op in ("expm1", "log1p", "atan"):
            return False
        y = _by_f64(node.op, x, do)
    state.replace(node.out, cast(state, node, y, dtype))
    return True


def _by_f64(op: str, x: Value, do: Callable[..., Value]) -> Value:
    """The function of x, by others that `do(op, *operands)` writes."""
    size = do("abs", x) if op in ("sinh", "asinh", "atanh") else x
    match op:
        case "sinh":
            e = do("expm1", size)
            y = do("mul", do("add", e, do("div", e, do("add", e, 1.0))), 0.5)
        case "cosh":
            return do("mul", do("add", do("exp", x), do("exp", do("neg", x))), 0.5)
        case "asinh":
            root = do("sqrt", do("add", do("mul", size, size), 1.0))
            y = do("log1p", do("add", size, do("div", do("mul", size, size), do("add", root, 1.0))))
        case "acosh":
            t = do("sub", x, 1.0)
            return do("log1p", do("add", t, do("sqrt", do("mul", t, do("add", t, 2.0)))))
        case "atanh":
            y = do("mul", do("log1p", do("div", do("mul", size, 2.0), do("sub", 1.0, size))), 0.5)
        case "asin":
            return do("atan", do("div", x, do("sqrt", do("mul", do("sub", 1.0, x), do("add", x, 1.0)))))
        case "acos":
            return do("mul", do("atan", do("sqrt", do("div", do("sub", 1.0, x), do("add", x, 1.0)))), 2.0)
        case _:
            return do(op, x)
    return do("mul", y, do("sign", x))


POWERS = (3, 4, -2, -3, -4)
"""Exponents for which some products take less time than a logarithm."""


def power(state: Sweep, node: Node) -> bool:
    """x**n for a small whole n as products, of 1 / x where n < 0: what a product exceeds, the power does, too."""
    x, exponent = node.x, node.const(1)
    if exponent is None or exponent.size != 1 or float(exponent.item()) not in POWERS:
        return False
    if x.type.dtype != np.float32 or not x.type.concrete or x.type.shape != node.out.type.shape:
        return False
    n = int(exponent.item())
    base = x if n > 0 else state.add("reciprocal", [x], x.type, node)
    square = state.add("mul", [base, base], x.type, node)
    others = {2: [], 3: [base], 4: [square]}[abs(n)]
    state.replace(node.out, state.add("mul", [square, *others], x.type, node) if others else square)
    return True
