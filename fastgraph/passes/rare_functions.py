"""Functions that few networks have, by those that kernels have in f64."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Value


def by_f64(op: str, x: Value, do: Callable[..., Value]) -> Value:
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
