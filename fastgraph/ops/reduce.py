"""Reductions over axes, positions of extremes, and running sums. Semantics: ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir import BOOL, INT64, Node, TensorType
from . import check
from .elementwise import divide
from .inference import Types, average, axes_of, axis_of, ints, lowest, same_type
from .registry import Layout, Quant, attr, define, fail


def _log_sum_exp(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    top = x.max(axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis)


def _highest(x: np.ndarray) -> Any:
    return True if x.dtype == BOOL else np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).max


def _mean(x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    if x.dtype.kind in "fc":
        return average(x, axis, keepdims)
    count = math.prod(x.shape[a] for a in axis)
    total = x.sum(axis=axis, keepdims=keepdims)
    return divide(total, total.dtype.type(max(count, 1)))


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "reduce_sum": lambda x, axis, keepdims: x.sum(axis=axis, keepdims=keepdims),
    "reduce_mean": _mean,
    "reduce_max": lambda x, axis, keepdims: x.max(axis=axis, keepdims=keepdims, initial=lowest(x.dtype)),
    "reduce_min": lambda x, axis, keepdims: x.min(axis=axis, keepdims=keepdims, initial=_highest(x)),
    "reduce_prod": lambda x, axis, keepdims: x.prod(axis=axis, keepdims=keepdims),
    "reduce_l1": lambda x, axis, keepdims: np.abs(x).sum(axis=axis, keepdims=keepdims),
    "reduce_l2": lambda x, axis, keepdims: np.sqrt((x * x).sum(axis=axis, keepdims=keepdims)),
    "reduce_sum_square": lambda x, axis, keepdims: (x * x).sum(axis=axis, keepdims=keepdims),
    "reduce_log_sum": lambda x, axis, keepdims: np.log(x.sum(axis=axis, keepdims=keepdims)),
    "reduce_log_sum_exp": _log_sum_exp,
}


def reduced_axes(node: Node, rank: int, axes: Any) -> tuple[int, ...] | None:
    """The axes that a reduce node sums away, given its `axes` input (None: absent); None: it does nothing."""
    if attr(node, "axes") == "spatial":
        return tuple(range(1, rank - 1))
    if attr(node, "axes") is not None:
        return axes_of(node, attr(node, "axes"), rank)
    if axes is None or np.size(axes) == 0:
        return None if attr(node, "noop_with_empty_axes") else tuple(range(rank))
    return axes_of(node, ints(axes), rank)


@check.takes("x, axes? iu 0-1")
def infer_reduce(node: Node, types: Types) -> list[TensorType]:
    x, axes_type = types
    check.operand(node, x, "x biuf" if node.op in ("reduce_max", "reduce_min") else "x iufc")
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    given = node.const(1)
    if axes_type is not None and given is None and axes_type.shape != (0,):
        return [TensorType(x.dtype, (None,) * len(x.shape) if attr(node, "keepdims") else None)]
    axes = reduced_axes(node, len(x.shape), given)
    return [TensorType(x.dtype, _without(x.shape, axes or (), attr(node, "keepdims")))]


def _without(shape: Any, axes: tuple[int, ...], keepdims: int) -> Any:
    if keepdims:
        return tuple(1 if i in axes else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def _reduction(function: Callable[..., Any]) -> Callable[[Node, list[Any]], list[Any]]:
    def reference(node: Node, inputs: list[Any]) -> list[Any]:
        x, given = inputs
        axes = reduced_axes(node, x.ndim, given)
        # With nothing to reduce, each element is still a group of one: |x| for l1, x * x for sum_square ...
        wide = x.astype(np.float32) if x.dtype == np.float16 else x
        with np.errstate(all="ignore"):
            y = function(wide, axis=axes or (), keepdims=bool(attr(node, "keepdims")))
        return [np.asarray(y).astype(x.dtype, copy=False)]

    return reference


def _infer_arg(node: Node, types: Types) -> list[TensorType]:
    x = types[0]
    if x.shape is None:
        return [TensorType(INT64, None)]
    axis = axis_of(node, attr(node, "axis"), len(x.shape))
    if x.shape[axis] == 0:
        fail(node, f"axis {axis} of the input is empty")
    return [TensorType(INT64, _without(x.shape, (axis,), attr(node, "keepdims")))]


def _arg(find: Callable[..., Any]) -> Callable[[Node, list[Any]], list[Any]]:
    def reference(node: Node, inputs: list[Any]) -> list[Any]:
        x, axis = inputs[0], attr(node, "axis")
        if attr(node, "select_last_index"):
            found = x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis)
        else:
            found = find(x, axis=axis)
        found = np.asarray(found, np.int64)
        return [np.expand_dims(found, axis) if attr(node, "keepdims") else found]

    return reference


@check.takes("x iufc, axis iu one")
def _infer_running(node: Node, types: Types) -> list[TensorType]:
    axis = node.const(1)
    if axis is not None and types[0].shape is not None:
        axis_of(node, int(axis.reshape(-1)[0]), len(types[0].shape))
    return same_type(node, types)


def _running(function: Callable[..., Any], start: int) -> Callable[[Node, list[Any]], list[Any]]:
    def reference(node: Node, inputs: list[Any]) -> list[Any]:
        x, axis = inputs[0], int(np.asarray(inputs[1]).reshape(-1)[0])
        x = np.flip(x, axis) if attr(node, "reverse") else x
        y = function(x, axis=axis, dtype=np.float32 if x.dtype == np.float16 else x.dtype).astype(x.dtype, copy=False)
        if attr(node, "exclusive"):
            y = np.moveaxis(np.roll(y, 1, axis), axis, 0).copy()
            y[:1] = start
            y = np.moveaxis(y, 0, axis)
        return [np.flip(y, axis) if attr(node, "reverse") else y]

    return reference


REDUCTION_FACTS: dict[str, dict[str, Any]] = {
    "reduce_mean": {"quant": Quant.INTEGERS, "sums": True, "extras_at": 2},
    "reduce_sum": {"quant": Quant.INTEGERS, "sums": True},
    "reduce_max": {"moves": True, "extras_at": 2},
    "reduce_min": {"moves": True},
}
_REDUCE = {"keepdims": 1, "noop_with_empty_axes": 0, "axes": None}
for _name, _function in REDUCTIONS.items():
    define(
        _name, infer_reduce, _reduction(_function), attrs=_REDUCE,
        layout=Layout.AXES, shaped_by=(1,), **REDUCTION_FACTS.get(_name, {}),
    )  # fmt: skip
_ARG = {"axis": 0, "keepdims": 1, "select_last_index": 0}
define("arg_max", _infer_arg, _arg(np.argmax), inputs=(1, 1), attrs=_ARG)
define("arg_min", _infer_arg, _arg(np.argmin), inputs=(1, 1), attrs=_ARG)
_RUNNING: dict[str, Any] = {"attrs": {"exclusive": 0, "reverse": 0}, "layout": Layout.AXIS, "axis": 1}
for _name, _function in {"cum_sum": _running(np.cumsum, 0), "cum_prod": _running(np.cumprod, 1)}.items():
    define(_name, _infer_running, _function, **_RUNNING)
