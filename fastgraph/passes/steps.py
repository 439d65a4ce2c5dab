"""Operators that are one step of an elementwise chain (kernels/chain.py): a new one is a row of the table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..ir import Node


def _plain(step: str, *names: str) -> Callable[[Node], tuple[Any, ...] | None]:
    """An operator whose step has the same inputs, followed by these attributes as numbers."""
    return lambda node: (step, *node.inputs, *(float(node.attrs[n]) for n in names))


def _clip(node: Node) -> tuple[Any, ...] | None:
    low, high = node.const(1), node.const(2)
    if (node.has(1) and low is None) or (node.has(2) and high is None):
        return None
    if any(limit is not None and limit.size != 1 for limit in (low, high)):
        return None
    least = -math.inf if low is None else float(low.item())
    most = math.inf if high is None else float(high.item())
    return ("clip", node.x, least, most)


def _pow(node: Node) -> tuple[Any, ...] | None:
    exponent = node.const(1)
    if exponent is not None and exponent.size == 1:
        match float(exponent.item()):
            case 2.0:
                return ("mul", node.x, node.x)
            case 0.5:
                return ("sqrt", node.x)
            case -1.0:
                return ("reciprocal", node.x)
            case 1.0:
                return ("mul", node.x, 1.0)
    return ("pow", *node.inputs)


def _gelu(node: Node) -> tuple[Any, ...] | None:
    return ("gelu_tanh" if node.attrs.get("approximate") == "tanh" else "gelu", node.x)


def _min_max(step: str) -> Callable[[Node], tuple[Any, ...] | None]:
    return lambda node: (step, *node.inputs) if len(node.inputs) == 2 else None


ELEMENTWISE: dict[str, Callable[[Node], tuple[Any, ...] | None]] = {
    **{name: _plain(name) for name in (
        "add", "sub", "mul", "div", "relu", "prelu", "abs", "neg", "floor", "ceil", "round", "sqrt", "reciprocal",
        "exp", "log", "erf", "tanh", "sigmoid", "sin", "cos", "hard_swish", "mish", "softplus", "softsign", "sign")},
    "min": _min_max("min"), "max": _min_max("max"), "pow": _pow, "clip": _clip, "gelu": _gelu,
    "leaky_relu": _plain("leaky_relu", "alpha"), "elu": _plain("elu", "alpha"),
    "selu": _plain("selu", "alpha", "gamma"), "celu": _plain("celu", "alpha"),
    "thresholded_relu": _plain("thresholded_relu", "alpha"),
    "hard_sigmoid": _plain("hard_sigmoid", "alpha", "beta"), "swish": _plain("swish", "alpha"),
}  # fmt: skip
"""Operator -> the step it is in a chain (name, then inputs and numbers), or None when this node is not one."""
