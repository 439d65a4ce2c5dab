"""Normalizations. batch, instance and lrn are channels last; the others follow ONNX's axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import FLOAT32, Node, TensorType
from . import check
from .inference import Types, average, axes_of, axis_of, in_float32, same_type
from .registry import REQUIRED, Layout, attr, define, fail
from .work import neighbors

EPSILON = 1e-5


def _check_stash(node: Node) -> None:
    """ModelError unless the statistics are to be computed in floats; they are, in float32 or wider."""
    stash = attr(node, "stash_type")
    if isinstance(stash, np.dtype) and stash.kind != "f":
        fail(node, f"stash_type must be a float type, found {stash}")


def _check_vectors(node: Node, types: Types, channels: Any) -> None:
    """ModelError unless each operand after x has one entry per channel."""
    for index, t in enumerate(types[1:], 1):
        check.shape(node, t, f"input {index}, one entry per channel,", channels)


@check.takes("x f 2+, scale f, bias f, mean f, variance f")
def _infer_batch(node: Node, types: Types) -> list[TensorType]:
    x, scale = types[0], types[1]
    channels = x.shape[-1] if x.shape else scale.shape[0] if scale.shape else None
    _check_vectors(node, types, channels)
    check.one_dtype(node, types[1:3])
    check.one_dtype(node, types[3:5])
    moment = TensorType(types[3].dtype, (channels,))
    return [*same_type(node, types), moment, moment]


@check.takes("x f 3+, scale f, bias f")
def _infer_instance(node: Node, types: Types) -> list[TensorType]:
    _check_vectors(node, types, types[0].shape[-1] if types[0].shape else None)
    check.one_dtype(node, types)
    return same_type(node, types)


@check.takes("x f, scale f, bias? f")
def _infer_layer(node: Node, types: Types) -> list[TensorType]:
    x, shape = types[0], types[0].shape
    for t, what in zip(types, ("x", "scale", "bias"), strict=False):
        check.broadcasts(node, t, what, shape)
    _check_stash(node)
    dtype = types[1].dtype if node.op == "rms_normalization" else check.one_dtype(node, types)
    if shape is None:
        return [TensorType(dtype, None), TensorType(FLOAT32, None), TensorType(FLOAT32, None)]
    axis = axis_of(node, attr(node, "axis"), len(x.shape))
    moment = TensorType(FLOAT32, (*shape[:axis], *(1,) * (len(shape) - axis)))
    return [TensorType(dtype, shape), moment, moment]


def _rms(node: Node, inputs: list[Any]) -> list[Any]:
    """x over the root of its mean square along the axes from `axis` on, times scale."""
    x, scale = inputs
    wide = x.astype(np.promote_types(x.dtype, np.float32), copy=False)
    axes = tuple(range(attr(node, "axis") % x.ndim, x.ndim))
    unit = wide / np.sqrt(average(wide * wide, axes) + attr(node, "epsilon"))
    return [(unit.astype(scale.dtype, copy=False) * scale).astype(scale.dtype, copy=False)]


@check.takes("x f 2+, scale f, bias f")
def _infer_group(node: Node, types: Types) -> list[TensorType]:
    x, groups = types[0], attr(node, "num_groups")
    channels = x.shape[1] if x.shape else None
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        fail(node, f"num_groups {groups} must divide the {channels} channels")
    _check_vectors(node, types, channels)
    check.one_dtype(node, types)
    _check_stash(node)
    return same_type(node, types)


@check.takes("x f 2+")
def _infer_lrn(node: Node, types: Types) -> list[TensorType]:
    check.at_least(node, "size", attr(node, "size"), 1)
    return same_type(node, types)


@check.takes("x f")
def _infer_lp(node: Node, types: Types) -> list[TensorType]:
    check.one_of(node, "p", attr(node, "p"), (1, 2))
    if types[0].shape is not None:
        axis_of(node, attr(node, "axis"), len(types[0].shape))
    return same_type(node, types)


@check.takes("x f")
def _infer_mvn(node: Node, types: Types) -> list[TensorType]:
    if types[0].shape is not None:
        axes_of(node, attr(node, "axes"), len(types[0].shape))
    return same_type(node, types)


@check.takes("x f 2+")
def _infer_global_lp(node: Node, types: Types) -> list[TensorType]:
    check.at_least(node, "p", attr(node, "p"), 1)
    shape = types[0].shape
    return [TensorType(types[0].dtype, None if shape is None else (*shape[:2], *(1,) * (len(shape) - 2)))]


def _global_lp(node: Node, inputs: list[Any]) -> list[Any]:
    p, axes = attr(node, "p"), tuple(range(2, inputs[0].ndim))
    return [in_float32(lambda x: (np.abs(x) ** p).sum(axis=axes, keepdims=True) ** (1 / p), inputs[0])]


define("batch_normalization", _infer_batch, attrs={"epsilon": EPSILON, "momentum": 0.9, "training_mode": 0})
define("instance_normalization", _infer_instance, attrs={"epsilon": EPSILON})
_LAYER = {"axis": -1, "epsilon": EPSILON, "stash_type": 1}
define("layer_normalization", _infer_layer, attrs=_LAYER)
define("rms_normalization", _infer_layer, _rms, inputs=(2, 2), attrs=_LAYER)
define("group_normalization", _infer_group, attrs={"num_groups": REQUIRED, "epsilon": EPSILON, "stash_type": 1})
define("lrn", _infer_lrn, attrs={"size": REQUIRED, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}, work=neighbors)
define("lp_normalization", _infer_lp, attrs={"axis": -1, "p": 2, "least": 0.0}, layout=Layout.AXIS)
define("mean_variance_normalization", _infer_mvn, attrs={"axes": (0, 2, 3)})
define("global_lp_pool", _infer_global_lp, _global_lp, attrs={"p": 2})
