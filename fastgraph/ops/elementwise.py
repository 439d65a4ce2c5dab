"""Elementwise arithmetic, comparison and logic with broadcasting. Semantics: ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from ..ir import BOOL, Node, TensorType
from . import check
from .chain import Step, step
from .inference import Types, broadcast, in_float32, same_type, shown
from .registry import REQUIRED, Layout, attr, define, fail

erf, erfc = (np.vectorize(f, otypes=[np.float64]) for f in (math.erf, math.erfc))


def _reciprocal(x: np.ndarray) -> np.ndarray:
    return x.dtype.type(1) / x


UNARY: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "neg": np.negative, "ceil": np.ceil, "floor": np.floor, "round": np.rint, "sign": np.sign,
    "sqrt": np.sqrt, "reciprocal": _reciprocal, "exp": np.exp, "log": np.log, "erf": erf, "tanh": np.tanh,
    "sin": np.sin, "cos": np.cos,
}  # fmt: skip
"""Functions that can be steps of a chain."""
RARE: dict[str, Callable[..., Any]] = {
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "expm1": np.expm1, "log1p": np.log1p,
    "not": np.logical_not, "bitwise_not": np.invert,
}  # fmt: skip


def unary(function: Callable[..., Any]) -> Callable[[Node, list[Any]], list[Any]]:
    """The reference of a function of one tensor that keeps its type."""

    def reference(node: Node, inputs: list[Any]) -> list[Any]:
        x = inputs[0]
        with np.errstate(all="ignore"):
            return [np.asarray(function(x)).astype(x.dtype, copy=False)]

    return reference


def divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y; integers truncate towards zero, and give 0 when divided by zero."""
    if x.dtype.kind not in "iu":
        return x / y
    q = x // y
    if x.dtype.kind == "i":
        q = q + ((q * y != x) & ((x < 0) != (y < 0)) & (y != 0))
    return q.astype(x.dtype)


def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x ** y in the type of x; whole numbers wrap around, unless the exponent is below 0 or no whole number."""
    if x.dtype.kind not in "iu" or y.dtype.kind == "u":
        return np.power(x, y).astype(x.dtype)
    if y.dtype.kind == "f":
        return np.power(x.astype(np.float64), y).astype(x.dtype)
    inverse = np.power(x.astype(np.float64), -2 + (y & 1)).astype(x.dtype)
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0)).astype(x.dtype))


def _mod(node: Node, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.fmod(x, y) if attr(node, "fmod") else np.mod(x, y)


def _atan2(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Computed in float64: NumPy's of float32 is one to three units in the last place off, depending on the CPU's
    vectors.
    """
    return np.arctan2(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)


def _shift(node: Node, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Shifts by the type's width or more give 0, or of a number below 0 shifted right -1."""
    bits = x.dtype.itemsize * 8
    step, far = np.minimum(y, bits - 1).astype(x.dtype), y >= bits
    if attr(node, "direction") == "LEFT":
        return np.where(far, x.dtype.type(0), np.left_shift(x, step))
    return np.where(far & (x >= 0), x.dtype.type(0), np.right_shift(x, step))


def _prelu(x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.where(x < 0, x * slope, x).astype(x.dtype, copy=False)


BINARY: dict[str, Callable[..., Any]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": divide}
"""Functions that can be steps of a chain."""
RARE_BINARY: dict[str, Callable[..., Any]] = {"floor_div": np.floor_divide, "atan2": _atan2, "copysign": np.copysign}
BITWISE = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
COMPARE: dict[str, Callable[..., Any]] = {
    "equal": np.equal, "less": np.less, "less_or_equal": np.less_equal, "greater": np.greater,
    "greater_or_equal": np.greater_equal, "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


def infer_broadcast(node: Node, types: Types) -> list[TensorType]:
    """Inputs of one element type, broadcast."""
    return [TensorType(check.one_dtype(node, types), broadcast(node, [t.shape for t in types]))]


def infer_compare(node: Node, types: Types) -> list[TensorType]:
    check.one_dtype(node, types)
    return [TensorType(BOOL, broadcast(node, [t.shape for t in types]))]


def _infer_first_dtype(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(types[0].dtype, broadcast(node, [t.shape for t in types]))]


@check.takes("x iuf, slope iuf")
def _infer_prelu(node: Node, types: Types) -> list[TensorType]:
    """The type of x, to which the slope broadcasts; ModelError where x would have to broadcast to the slope, as
    onnxruntime and LiteRT refuse that too."""
    x, slope = (t.shape for t in types)
    shape = broadcast(node, [x, slope])
    if x is not None and shape is not None:
        wider = any(isinstance(d, int) and d != 1 and e == 1 for d, e in zip(shape[::-1], x[::-1], strict=False))
        if len(shape) != len(x) or wider:
            fail(node, f"slope must broadcast to the input {shown(x)}, found {shown(slope)}")
    return [TensorType(check.one_dtype(node, types), x)]


@check.takes("x iu, y iu")
def _infer_shift(node: Node, types: Types) -> list[TensorType]:
    check.one_of(node, "direction", attr(node, "direction"), ("LEFT", "RIGHT"))
    return infer_broadcast(node, types)


def binary(function: Callable[..., Any], takes_node: bool = False) -> Callable[[Node, list[Any]], list[Any]]:
    def reference(node: Node, inputs: list[Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return [np.asarray(function(node, *inputs) if takes_node else function(*inputs))]

    return reference


def _variadic(function: Callable[..., Any]) -> Callable[[Node, list[Any]], list[Any]]:
    return lambda node, inputs: [np.asarray(reduce(function, inputs))]


def _mean(node: Node, inputs: list[Any]) -> list[Any]:
    return [in_float32(lambda *arrays: reduce(np.add, arrays) / len(arrays), *inputs)]


@check.takes("x iuf, min? iuf, max? iuf")
def _infer_clip(node: Node, types: Types) -> list[TensorType]:
    check.one_dtype(node, types)
    for name, bound in zip(("min", "max"), types[1:], strict=False):
        if bound is not None and bound.shape is not None and any(isinstance(d, int) and d != 1 for d in bound.shape):
            fail(node, f"{name} must be one number, found shape {shown(bound.shape)}")
    return same_type(node, types)


def clip(node: Node, inputs: list[Any]) -> list[Any]:
    """The greater of x and min, then the lesser of that and max (so max wins over a greater min)."""
    y, least, most = inputs
    y = y if least is None else np.maximum(y, least.reshape(()))
    return [np.asarray(y if most is None else np.minimum(y, most.reshape(())))]


def clamp(x: Any, low: Any, high: Any) -> Any:
    """The function of a `clip` step."""
    return np.minimum(np.maximum(x, low), high)


def _clip_step(node: Node) -> tuple[Any, ...] | None:
    low, high = node.const(1), node.const(2)
    if (node.has(1) and low is None) or (node.has(2) and high is None):
        return None
    if any(bound is not None and bound.size != 1 for bound in (low, high)):
        return None
    least = -math.inf if low is None else float(low.item())
    most = math.inf if high is None else float(high.item())
    return ("clip", node.x, least, most)


def _pow_step(node: Node) -> tuple[Any, ...] | None:
    exponent, shape = node.const(1), node.x.type.shape
    if exponent is not None and exponent.size == 1 and shape is not None and exponent.ndim <= len(shape):
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


def _of_two(step: Step) -> Step:
    return lambda node: step(node) if len(node.inputs) == 2 else None


@check.takes("condition, x, y")
def _infer_where(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(check.one_dtype(node, types[1:]), broadcast(node, [t.shape for t in types]))]


def where(node: Node, inputs: list[Any]) -> list[Any]:
    condition, x, y = inputs
    return [np.where(condition.astype(bool), x, y)]


@check.takes("x iuf")
def _infer_bool(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(BOOL, types[0].shape)]


BITS, NUMBER, ARITHMETIC, ANY = "biu", "iuf", "iufc", "biufcO"
"""Kinds of element types, in NumPy's letters."""


def _is_inf(node: Node, inputs: list[Any]) -> list[Any]:
    x = inputs[0]
    found = np.isposinf(x) & bool(attr(node, "detect_positive"))
    return [found | (np.isneginf(x) & bool(attr(node, "detect_negative")))]


EACH: dict[str, Any] = {"layout": Layout.EACH}

for _name, _function in UNARY.items():
    define(_name, check.takes("x iufc")(same_type), unary(_function), step=step(_name, _function))
for _name, _function in RARE.items():
    _kinds = {"not": "b", "bitwise_not": BITS}.get(_name, ARITHMETIC)
    define(_name, check.takes(f"x {_kinds}")(same_type), unary(_function), **EACH)
for _name, _function in BINARY.items():
    define(_name, check.takes("x iufc, y iufc")(infer_broadcast), binary(_function), step=step(_name, _function))
for _name, _function in (RARE_BINARY | BITWISE).items():
    _kinds = BITS if _name in BITWISE else ARITHMETIC
    define(_name, check.takes(f"x {_kinds}, y {_kinds}")(infer_broadcast), binary(_function), **EACH)
for _name, _function in COMPARE.items():
    _kinds = {"and": "b", "or": "b", "xor": "b", "equal": ANY}.get(_name, NUMBER)
    define(_name, check.takes(f"x {_kinds}, y {_kinds}")(infer_compare), binary(_function), **EACH)
for _name, _function in {"max": np.maximum, "min": np.minimum}.items():
    _step = _of_two(step(_name, _function))
    define(_name, check.takes("operands+ iufc")(infer_broadcast), _variadic(_function), step=_step)
define("sum", check.takes("operands+ iufc")(infer_broadcast), _variadic(np.add), **EACH)
define("mean", check.takes("operands+ iufc")(infer_broadcast), _mean, **EACH)
define("identity", same_type, lambda node, inputs: [inputs[0]], inputs=(1, 1), moves=True, **EACH)
step("pow", power)
define("pow", check.takes("x iufc, y iufc")(_infer_first_dtype), binary(power), step=_pow_step)
define("mod", check.takes("x iuf, y iuf")(infer_broadcast), binary(_mod, takes_node=True), attrs={"fmod": 0}, **EACH)
define("bit_shift", _infer_shift, binary(_shift, takes_node=True), attrs={"direction": REQUIRED}, **EACH)
define("prelu", _infer_prelu, binary(_prelu), step=step("prelu", _prelu))
step("clip", clamp)
define("clip", _infer_clip, clip, step=_clip_step)
define("where", _infer_where, where, **EACH)
define("is_nan", _infer_bool, lambda node, inputs: [np.isnan(inputs[0])], **EACH)
define("is_inf", _infer_bool, _is_inf, attrs={"detect_negative": 1, "detect_positive": 1}, **EACH)
