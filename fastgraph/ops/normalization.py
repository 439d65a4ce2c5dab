"""Normalizations. batch, instance and lrn are channels last; the others follow ONNX's axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from .common import (
    FLOAT,
    FLOAT32,
    Types,
    at_least,
    average,
    axes_of,
    axis_of,
    fail,
    fits,
    in_float32,
    need_kind,
    need_rank,
    one_dtype,
    one_of,
    same_type,
    spreads,
)
from .registry import REQUIRED, Layout, attr, define
from .work import neighbors

EPSILON = 1e-5


def _check_stash(node: Node) -> None:
    """ModelError unless the statistics are to be computed in floats; they are, in float32 or wider."""
    stash = attr(node, "stash_type")
    if isinstance(stash, np.dtype) and stash.kind != "f":
        fail(node, f"stash_type must be a float type, found {stash}")


def _check_vectors(node: Node, types: Types, channels: Any) -> None:
    """ModelError unless all is of floats, and what follows x has one entry per channel."""
    for index, t in enumerate(types):
        need_kind(node, t, FLOAT, f"input {index}")
        if index:
            fits(node, t, f"input {index}, one entry per channel,", channels)


def _infer_batch(node: Node, types: Types) -> list[TensorType]:
    x, scale = types[0], types[1]
    need_rank(node, x, 2)
    channels = x.shape[-1] if x.shape else scale.shape[0] if scale.shape else None
    _check_vectors(node, types, channels)
    one_dtype(node, types[1:3])
    one_dtype(node, types[3:5])
    moment = TensorType(types[3].dtype, (channels,))
    return [*same_type(node, types), moment, moment]


def _batch(node: Node, inputs: list[Any]) -> list[Any]:
    """(x - mean) / sqrt(var + epsilon) * scale + b; training takes the batch's moments."""
    x, scale, b, mean, var = (v.astype(np.float32) if v.dtype == np.float16 else v for v in inputs)
    running = [mean, var]
    if attr(node, "training_mode"):
        axes, keep = tuple(range(x.ndim - 1)), attr(node, "momentum")
        center = average(x, axes, keepdims=False)
        now = [center, average((x - center) ** 2, axes, keepdims=False)]
        running = [(old * keep + new * (1 - keep)).astype(old.dtype) for old, new in zip(running, now, strict=True)]
        mean, var = now
    factor = scale / np.sqrt(var + attr(node, "epsilon"))
    y = (x - mean) * factor + b
    types = (inputs[0].dtype, inputs[3].dtype, inputs[4].dtype)
    return [v.astype(t, copy=False) for v, t in zip((y, *running), types, strict=True)]


def standardized(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x with mean 0 and variance 1 over the axes, the mean, 1 / the deviation), in float32 or wider."""
    wide = x.astype(np.promote_types(x.dtype, np.float32), copy=False)
    mean = average(wide, axes)
    centered = wide - mean
    inverse = 1 / np.sqrt(average(centered * centered, axes) + epsilon)
    return centered * inverse, mean, inverse


def _infer_instance(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 3)
    _check_vectors(node, types, types[0].shape[-1] if types[0].shape else None)
    one_dtype(node, types)
    return same_type(node, types)


def _instance(node: Node, inputs: list[Any]) -> list[Any]:
    x, scale, b = inputs
    unit, _, _ = standardized(x, tuple(range(1, x.ndim - 1)), attr(node, "epsilon"))
    return [(unit * scale + b).astype(x.dtype, copy=False)]


def _infer_layer(node: Node, types: Types) -> list[TensorType]:
    x, shape = types[0], types[0].shape
    for t, what in zip(types, ("x", "scale", "bias"), strict=False):
        need_kind(node, t, FLOAT, what)
        spreads(node, t, what, shape)
    _check_stash(node)
    dtype = types[1].dtype if node.op == "rms_normalization" else one_dtype(node, types)
    if shape is None:
        return [TensorType(dtype, None), TensorType(FLOAT32, None), TensorType(FLOAT32, None)]
    axis = axis_of(node, attr(node, "axis"), len(x.shape))
    moment = TensorType(FLOAT32, (*shape[:axis], *(1,) * (len(shape) - axis)))
    return [TensorType(dtype, shape), moment, moment]


def _layer(node: Node, inputs: list[Any]) -> list[Any]:
    x, scale, b = inputs
    axes = tuple(range(attr(node, "axis") % x.ndim, x.ndim))
    unit, mean, inverse = standardized(x, axes, attr(node, "epsilon"))
    y = unit.astype(x.dtype, copy=False) * scale
    y = y if b is None else y + b
    return [y.astype(x.dtype, copy=False), mean.astype(np.float32), inverse.astype(np.float32)]


def _rms(node: Node, inputs: list[Any]) -> list[Any]:
    """x over the root of its mean square along the axes from `axis` on, times scale."""
    x, scale = inputs
    wide = x.astype(np.promote_types(x.dtype, np.float32), copy=False)
    axes = tuple(range(attr(node, "axis") % x.ndim, x.ndim))
    unit = wide / np.sqrt(average(wide * wide, axes) + attr(node, "epsilon"))
    return [(unit.astype(scale.dtype, copy=False) * scale).astype(scale.dtype, copy=False)]


def _infer_group(node: Node, types: Types) -> list[TensorType]:
    x, groups = types[0], attr(node, "num_groups")
    need_rank(node, x, 2)
    channels = x.shape[1] if x.shape else None
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        fail(node, f"num_groups {groups} must divide the {channels} channels")
    _check_vectors(node, types, channels)
    one_dtype(node, types)
    _check_stash(node)
    return same_type(node, types)


def _group(node: Node, inputs: list[Any]) -> list[Any]:
    x, scale, b = inputs
    parts = x.reshape(x.shape[0], attr(node, "num_groups"), -1)
    unit = standardized(parts, (2,), attr(node, "epsilon"))[0].reshape(x.shape)
    shape = (-1, *(1,) * (x.ndim - 2))
    return [(unit * scale.reshape(shape) + b.reshape(shape)).astype(x.dtype, copy=False)]


def _infer_lrn(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 2)
    need_kind(node, types[0], FLOAT)
    at_least(node, "size", attr(node, "size"), 1)
    return same_type(node, types)


def _lrn(node: Node, inputs: list[Any]) -> list[Any]:
    """x / (bias + alpha / size * sum of squares over `size` neighboring channels) ** beta, channels last."""
    return [in_float32(lambda x: _over_neighbors(node, x), inputs[0])]


def _over_neighbors(node: Node, x: np.ndarray) -> np.ndarray:
    size = attr(node, "size")
    channels = x.shape[-1]
    before, after = min((size - 1) // 2, channels), min(size // 2, channels)
    squares = np.pad(x * x, [(0, 0)] * (x.ndim - 1) + [(before, after)])
    total = sum(squares[..., i : i + channels] for i in range(before + 1 + after))
    return np.asarray(x / (attr(node, "bias") + attr(node, "alpha") / size * total) ** attr(node, "beta"))


def _infer_lp(node: Node, types: Types) -> list[TensorType]:
    need_kind(node, types[0], FLOAT)
    one_of(node, "p", attr(node, "p"), (1, 2))
    if types[0].shape is not None:
        axis_of(node, attr(node, "axis"), len(types[0].shape))
    return same_type(node, types)


def _lp(node: Node, inputs: list[Any]) -> list[Any]:
    """x over its l1 or l2 norm along the axis, of which the least counts; 0 where the norm is 0."""
    return [in_float32(lambda x: _over_norm(node, x), inputs[0])]


def _over_norm(node: Node, x: np.ndarray) -> np.ndarray:
    axis = attr(node, "axis")
    norm = np.abs(x).sum(axis, keepdims=True) if attr(node, "p") == 1 else np.sqrt((x * x).sum(axis, keepdims=True))
    norm = np.maximum(norm, norm.dtype.type(attr(node, "least")))
    return np.divide(x, norm, out=np.zeros_like(x), where=norm != 0)


def _infer_mvn(node: Node, types: Types) -> list[TensorType]:
    need_kind(node, types[0], FLOAT)
    if types[0].shape is not None:
        axes_of(node, attr(node, "axes"), len(types[0].shape))
    return same_type(node, types)


def _mvn(node: Node, inputs: list[Any]) -> list[Any]:
    axes = tuple(attr(node, "axes"))

    def of(x: np.ndarray) -> np.ndarray:
        centered = x - average(x, axes)
        return np.asarray(centered / (np.sqrt(average(centered * centered, axes)) + 1e-9))

    return [in_float32(of, inputs[0])]


def _infer_global_lp(node: Node, types: Types) -> list[TensorType]:
    need_rank(node, types[0], 2)
    need_kind(node, types[0], FLOAT)
    at_least(node, "p", attr(node, "p"), 1)
    shape = types[0].shape
    return [TensorType(types[0].dtype, None if shape is None else (*shape[:2], *(1,) * (len(shape) - 2)))]


def _global_lp(node: Node, inputs: list[Any]) -> list[Any]:
    p, axes = attr(node, "p"), tuple(range(2, inputs[0].ndim))
    return [in_float32(lambda x: (np.abs(x) ** p).sum(axis=axes, keepdims=True) ** (1 / p), inputs[0])]


define(
    "batch_normalization", _infer_batch, _batch, inputs=(5, 5),
    attrs={"epsilon": EPSILON, "momentum": 0.9, "training_mode": 0},
)  # fmt: skip
define("instance_normalization", _infer_instance, _instance, inputs=(3, 3), attrs={"epsilon": EPSILON})
_LAYER = {"axis": -1, "epsilon": EPSILON, "stash_type": 1}
define("layer_normalization", _infer_layer, _layer, inputs=(2, 3), attrs=_LAYER)
define("rms_normalization", _infer_layer, _rms, inputs=(2, 2), attrs=_LAYER)
define(
    "group_normalization", _infer_group, _group, inputs=(3, 3),
    attrs={"num_groups": REQUIRED, "epsilon": EPSILON, "stash_type": 1},
)  # fmt: skip
define(
    "lrn", _infer_lrn, _lrn, inputs=(1, 1), attrs={"size": REQUIRED, "alpha": 1e-4, "beta": 0.75, "bias": 1.0},
    work=neighbors,
)  # fmt: skip
define("lp_normalization", _infer_lp, _lp, inputs=(1, 1), attrs={"axis": -1, "p": 2, "least": 0.0}, layout=Layout.AXIS)
define("mean_variance_normalization", _infer_mvn, _mvn, inputs=(1, 1), attrs={"axes": (0, 2, 3)})
define("global_lp_pool", _infer_global_lp, _global_lp, inputs=(1, 1), attrs={"p": 2})
