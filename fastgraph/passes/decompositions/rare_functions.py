"""Functions that few networks have, by those that have kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir import Node, TensorType, Value
from ..rewrite import Sweep, constant
from .element_types import F32, F64, cast

Do = Callable[..., Value]
ENOUGH = 1400.0
"""sinh and cosh of it are infinite, and its exponential's root is not."""
HUGE = 1e300
"""More than any f32, so that what is infinite over that is infinite."""
FAR = 2.0**28
"""From here on asinh and acosh grow as the logarithm does, to all bits; its square has an exact 1 beside it."""


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
        y = _by_f64(node.op, x, do, dtype == F64)
    state.replace(node.out, cast(state, node, y, dtype))
    return True


def _by_f64(op: str, x: Value, do: Do, large: bool) -> Value:
    """The function of x, by others that `do(op, *operands)` writes. `large`: whether x may have squares that are
    infinite while it is not.
    """
    size = do("abs", x) if op in ("sinh", "cosh", "asinh", "atanh") else x
    match op:
        case "sinh":  # (t + t / e) / 2 * (e + 1 / e) with e = exp(|x| / 2) = t + 1
            t = do("expm1", do("mul", do("min", size, ENOUGH), 0.5))
            e = do("add", t, 1.0)
            both = do("add", e, do("reciprocal", e))
            y = do("mul", do("mul", do("add", t, do("div", t, e)), 0.5), both)
        case "cosh":  # (e * e + 1 / (e * e)) / 2
            e = do("exp", do("mul", do("min", size, ENOUGH), 0.5))
            half = do("mul", e, 0.5)
            return do("add", do("mul", half, e), do("div", do("div", 0.5, e), e))
        case "asinh":
            near = do("min", size, FAR) if large else size
            square = do("mul", near, near)
            root = do("add", do("sqrt", do("add", square, 1.0)), 1.0)
            share = do("div", square, root if large else do("min", root, HUGE))
            y = _and_beyond(do, do("log1p", do("add", near, share)), size, large)
        case "acosh":  # a root of each factor, so that there is none below 1
            t = do("sub", do("min", x, FAR) if large else x, 1.0)
            root = do("mul", do("sqrt", t), do("sqrt", do("add", t, 2.0)))
            return _and_beyond(do, do("log1p", do("add", t, root)), x, large)
        case "atanh":
            y = do("mul", do("log1p", do("div", do("mul", size, 2.0), do("sub", 1.0, size))), 0.5)
        case "asin":
            return do("atan", do("div", x, do("sqrt", do("mul", do("sub", 1.0, x), do("add", x, 1.0)))))
        case "acos":
            return do("mul", do("atan", do("sqrt", do("div", do("sub", 1.0, x), do("add", x, 1.0)))), 2.0)
        case _:
            return do(op, x)
    return do("copysign", y, x)


def _and_beyond(do: Do, y: Value, x: Value, large: bool) -> Value:
    """asinh or acosh of the lesser of x and FAR, and what larger x add to that: log(x / FAR)."""
    return do("add", y, do("log", do("max", do("mul", x, 1 / FAR), 1.0))) if large else y


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
