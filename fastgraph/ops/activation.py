"""Activation functions: of each element, and softmax and its kin along an axis. Semantics: ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import Node, TensorType
from . import check
from .chain import step
from .elementwise import erfc, infer_broadcast
from .inference import Types, axis_of, in_float32, same_type
from .registry import Layout, attr, define


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, x.dtype.type(0))


def gelu(x: np.ndarray, approximate: str) -> np.ndarray:
    """x * Phi(x), with the normal distribution by erf ("none") or by tanh of a cubic ("tanh")."""
    if approximate == "tanh":
        return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
    return 0.5 * x * erfc(x.astype(np.float64) * -math.sqrt(0.5)).astype(x.dtype)


FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "relu": (lambda x: np.maximum(x, 0), {}),
    "sigmoid": (sigmoid, {}),
    "softplus": (softplus, {}),
    "softsign": (lambda x: x / (1 + np.abs(x)), {}),
    "mish": (lambda x: x * np.tanh(softplus(x)), {}),
    "hard_swish": (lambda x: x * (np.clip(x + 3, 0, 6) / 6), {}),
    "swish": (lambda x, alpha: x * sigmoid(alpha * x), {"alpha": 1.0}),
    "leaky_relu": (lambda x, alpha: np.where(x < 0, alpha * x, x), {"alpha": 0.01}),
    "thresholded_relu": (lambda x, alpha: np.where(x > alpha, x, 0), {"alpha": 1.0}),
    "hard_sigmoid": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), {"alpha": 0.2, "beta": 0.5}),
    "elu": (lambda x, alpha: np.where(x < 0, alpha * np.expm1(x), x), {"alpha": 1.0}),
    "celu": (lambda x, alpha: np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0), {"alpha": 1.0}),
    "selu": (
        lambda x, alpha, gamma: gamma * np.where(x <= 0, alpha * np.expm1(x), x),
        {"alpha": 1.6732631921768188, "gamma": 1.0507010221481323},
    ),
}
"""Name -> (function of the array and the attributes, attribute defaults)."""


def _pointwise(function: Callable[..., Any], names: tuple[str, ...]) -> Callable[[Node, list[Any]], list[Any]]:
    def reference(node: Node, inputs: list[Any]) -> list[Any]:
        values = {name: attr(node, name) for name in names}
        with np.errstate(all="ignore"):
            return [in_float32(lambda x: function(x, **values), inputs[0])]

    return reference


def infer_along(node: Node, types: Types) -> list[TensorType]:
    """Type and shape stay; `axis` must exist."""
    if types[0].shape is not None and not (types[0].shape == () and attr(node, "axis") in (0, -1)):
        axis_of(node, attr(node, "axis"), len(types[0].shape))
    return same_type(node, types)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """exp(x) over its sum along the axis. Where all are -inf: NaN."""
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=axis, keepdims=True)


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    shifted = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _hardmax(x: np.ndarray, axis: int) -> np.ndarray:
    """1 at the first greatest element along the axis, 0 elsewhere."""
    first = np.expand_dims(x.argmax(axis=axis), axis)
    places = np.arange(x.shape[axis]).reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return (places == first).astype(x.dtype)


def _along(function: Callable[..., Any]) -> Callable[[Node, list[Any]], list[Any]]:
    def reference(node: Node, inputs: list[Any]) -> list[Any]:
        x = inputs[0]
        if x.size == 0:
            return [x]
        with np.errstate(all="ignore"):
            flat = np.atleast_1d(x)
            return [in_float32(lambda v: function(v, attr(node, "axis")), flat).reshape(x.shape)]

    return reference


@check.takes("x iuf")
def _infer_gelu(node: Node, types: Types) -> list[TensorType]:
    check.one_of(node, "approximate", attr(node, "approximate"), ("none", "tanh"))
    return same_type(node, types)


_EXACT = step("gelu", lambda x: gelu(x, "none"))
_TANH = step("gelu_tanh", lambda x: gelu(x, "tanh"))
for _name, (_function, _attrs) in FUNCTIONS.items():
    define(
        _name,
        check.takes("x iuf")(same_type),
        _pointwise(_function, tuple(_attrs)),
        attrs=_attrs,
        step=step(_name, _function, _attrs),
    )
define(
    "gelu",
    _infer_gelu,
    _pointwise(gelu, ("approximate",)),
    attrs={"approximate": "none"},
    step=lambda node: (_TANH if attr(node, "approximate") == "tanh" else _EXACT)(node),
)
define("shrink", check.takes("x iuf")(same_type), attrs={"lambd": 0.5, "bias": 0.0}, layout=Layout.EACH)
for _name, _function in {"softmax": softmax, "log_softmax": log_softmax, "hardmax": _hardmax}.items():
    define(_name, check.takes("x iuf")(infer_along), _along(_function), attrs={"axis": -1}, layout=Layout.AXIS)
define("swiglu", check.takes("x iuf, gate iuf")(infer_broadcast), attrs={"alpha": 1.0}, layout=Layout.EACH)
