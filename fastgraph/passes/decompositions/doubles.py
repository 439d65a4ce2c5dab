"""Functions of f64, by those that kernels have in f64; and the few that they have of no type."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...ir import Node, TensorType, Value
from ...ops.registry import attr
from ..rewrite import Sweep, constant
from .element_types import F64

BOOL = np.dtype(np.bool_)
Do = Callable[..., Value]


def double(state: Sweep, node: Node) -> bool:
    """Given ``y = sigmoid(x)`` in f64; result ``1 / (1 + exp(-x))``, and so on."""
    dtype = node.x.type.dtype
    if dtype != F64:
        return False
    if not all(v is not None and v.type.concrete for v in (*node.inputs, node.out)):
        return False

    def do(op: str, *values: Value | float) -> Value:
        own = [v if isinstance(v, Value) else constant(node.out, np.array(v, dtype), "number") for v in values]
        dims = np.broadcast_shapes(*(v.type.dims for v in own))
        truth = op in ("less", "greater", "less_or_equal", "greater_or_equal")
        return state.add(op, [*own], TensorType(BOOL if truth else dtype, dims), node)

    state.replace(node.out, _by_others(node, node.x, do))
    return True


def _by_others(node: Node, x: Value, do: Do) -> Value:
    """What the node makes of x, by operators that `do(op, *operands)` writes."""

    def number(name: str) -> float:
        return float(attr(node, name))

    match node.op:
        case "sigmoid":
            return _sigmoid(do, x)
        case "tanh":
            return _tanh(do, x)
        case "softplus":
            return _softplus(do, x)
        case "softsign":
            return do("div", x, do("add", do("abs", x), 1.0))
        case "mish":
            return do("mul", x, _tanh(do, _softplus(do, x)))
        case "hard_swish":
            return do("mul", x, do("div", do("min", do("max", do("add", x, 3.0), 0.0), 6.0), 6.0))
        case "hard_sigmoid":
            return _clipped(do, do("add", do("mul", x, number("alpha")), number("beta")))
        case "swish":
            return do("mul", x, _sigmoid(do, do("mul", x, number("alpha"))))
        case "leaky_relu":
            return do("where", do("less", x, 0.0), do("mul", x, number("alpha")), x)
        case "thresholded_relu":
            return do("where", do("greater", x, number("alpha")), x, 0.0)
        case "elu":
            return do("where", do("less", x, 0.0), do("mul", do("expm1", x), number("alpha")), x)
        case "celu":
            alpha = number("alpha")
            below = do("mul", do("expm1", do("div", x, alpha)), alpha)
            return do("add", do("max", x, 0.0), do("min", below, 0.0))
        case "selu":
            below = do("mul", do("expm1", x), number("alpha"))
            return do("mul", do("where", do("less_or_equal", x, 0.0), below, x), number("gamma"))
        case "gelu":
            return _gelu(do, x, attr(node, "approximate") == "tanh")
        case _:
            raise AssertionError(node.op)


def _sigmoid(do: Do, x: Value) -> Value:
    return do("reciprocal", do("add", do("exp", do("neg", x)), 1.0))


def _tanh(do: Do, x: Value) -> Value:
    """e / (e + 2) with e = exp(2 |x|) - 1; from 22 on it is 1."""
    size = do("min", do("abs", x), 22.0)
    e = do("expm1", do("add", size, size))
    return do("copysign", do("div", e, do("add", e, 2.0)), x)


def _softplus(do: Do, x: Value) -> Value:
    return do("add", do("max", x, 0.0), do("log1p", do("exp", do("neg", do("abs", x)))))


def _clipped(do: Do, x: Value) -> Value:
    return do("min", do("max", x, 0.0), 1.0)


def _gelu(do: Do, x: Value, by_tanh: bool) -> Value:
    if by_tanh:
        cube = do("mul", do("mul", x, x), do("mul", x, 0.044715))
        return do("mul", x, _sigmoid(do, do("mul", do("add", x, cube), 2 * math.sqrt(2 / math.pi))))
    share = do("erf", do("mul", x, math.sqrt(0.5)))
    return do("mul", do("mul", x, 0.5), do("add", share, 1.0))


def square(state: Sweep, node: Node) -> bool:
    """x**2 of f64 as a product."""
    x, exponent = node.x, node.const(1)
    if x.type.dtype != F64 or exponent is None or exponent.size != 1 or exponent.item() != 2:
        return False
    if not x.type.concrete or x.type.shape != node.out.type.shape:
        return False
    state.replace(node.out, state.add("mul", [x, x], x.type, node))
    return True
