"""Operators over images and other grids: ONNX puts the channels first, the graph last.

Activations are wrapped in transposes ("to_last", "to_first") that the layout pass cancels; constant weights
are transposed here, as views. Attributes of windows become full tuples of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir import Value
from .call import Call, shape_of

Attrs = dict[str, Any]
Rule = Callable[[Call, Attrs], Value | list[Value]]

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_MOST = 1 << 31
_CAST: Attrs = {"saturate": 1, "round_mode": "up", "format": ""}


def _windows(call: Call, attrs: Attrs, rank: int | None) -> tuple[Attrs, int | None]:
    """strides, dilations, pads and auto_pad as in the graph, and the number of spatial dimensions if known.

    `rank`: what the operands say about that number. ModelError when the attributes disagree with it or each
    other.
    """
    found: dict[str, float] = {"operands": rank} if rank is not None else {}
    found |= {n: len(attrs[n]) for n in ("kernel_shape", "strides", "dilations") if attrs.get(n)}
    if attrs.get("pads"):
        found["pads"] = len(attrs["pads"]) / 2
    if len(set(found.values())) > 1:
        call.fail(f"expected windows of one number of spatial dimensions, found {found}")
    n = next(iter(found.values()), None)
    if n is not None and not 1 <= n <= 30:
        call.fail(f"expected an input of batch, channels and spatial dimensions, found {n} of the last kind")
    auto_pad = attrs["auto_pad"]
    if auto_pad not in _AUTO_PADS:
        call.fail(f"expected auto_pad as one of {_AUTO_PADS}, found {auto_pad!r}")
    count = int(n or 0)
    window = {
        "strides": attrs.get("strides") or (1,) * count,
        "dilations": attrs.get("dilations") or (1,) * count,
        "pads": (attrs.get("pads") if auto_pad == "NOTSET" else None) or (0,) * (2 * count),
        "auto_pad": auto_pad,
    }
    for name, low in (("strides", 1), ("dilations", 1), ("pads", 0)):
        if not all(low <= value < _MOST for value in window[name]):
            call.fail(f"expected {name} from {low} on, found {window[name]}")
    return window, int(n) if n is not None else None


def _spatial(call: Call, *values: tuple[Value, int]) -> int | None:
    """Spatial dimensions by the ranks of (value, its other dimensions)."""
    ranks = [rank - other for v, other in values if (rank := call.known_rank(v)) is not None]
    if ranks and min(ranks) != max(ranks):
        call.fail(f"its input and its weights have {ranks[0]} and {ranks[1]} spatial dimensions")
    return ranks[0] if ranks else None


def _weights(call: Call, attrs: Attrs, w: Value) -> Value:
    """[O, C/g, k...] to [O, k..., C/g]."""
    kernel = attrs["kernel_shape"]
    if w.data is None:
        return call.to_last(w)
    if w.data.ndim < 3 or (kernel and kernel != w.data.shape[2:]):
        call.fail(f"expected weights [out, in, *{list(kernel or '?')}], found shape {list(w.data.shape)}")
    return call.const(np.moveaxis(w.data, 1, -1))


def _groups(call: Call, attrs: Attrs) -> int:
    if not 1 <= attrs["group"] < _MOST:
        call.fail(f"expected a group count from 1 on, found {attrs['group']}")
    return attrs["group"]


def _convolution(op: str, weights_at: int) -> Rule:
    return lambda call, attrs: convolution(call, attrs, op, call.inputs, weights_at)


def convolution(
    call: Call, attrs: Attrs, op: str, inputs: Sequence[Value | None], weights_at: int, last: bool = False
) -> Value:
    """A convolution of `inputs`, x the first of them; `last`: the channels of x and the result are."""
    x, w = inputs[0], inputs[weights_at]
    assert x is not None and w is not None
    window, n = _windows(call, attrs, _spatial(call, (x, 2), (w, 2)))
    found = list(inputs)
    found[0] = x if last else call.to_last(x)
    found[weights_at] = _weights(call, attrs, w)
    if attrs["kernel_shape"] and w.data is None:
        window["kernel_shape"] = attrs["kernel_shape"]
    y = call.add(op, found, groups=_groups(call, attrs), **window)
    if n is not None:
        call.reader.ranks[y] = n + 2
    return y if last else call.to_first(y)


def _conv_transpose(call: Call, attrs: Attrs) -> Value:
    w = call.x(1)
    window, n = _windows(call, attrs, _spatial(call, (call.x(0), 2), (w, 2)))
    groups = _groups(call, attrs)
    kernel = attrs["kernel_shape"]
    if w.data is None:
        weights = _flipped_nodes(call, w, groups, n)
    else:
        if w.data.ndim < 3 or w.data.shape[0] % groups or (kernel and kernel != w.data.shape[2:]):
            call.fail(f"expected weights [in, out/{groups}, *{list(kernel or '?')}], found {list(w.data.shape)}")
        weights = call.const(_flipped(w.data, groups))
    output_shape = attrs["output_shape"]
    if output_shape and n is not None and len(output_shape) == n + 2:
        output_shape = output_shape[2:]
    window["output_padding"] = attrs["output_padding"] or (0,) * (n or 0)
    window["output_shape"] = output_shape or None
    if kernel and w.data is None:
        window["kernel_shape"] = kernel
    y = call.add("conv_transpose", [call.to_last(call.x(0)), weights, *call.inputs[2:]], groups=groups, **window)
    if n is not None:
        call.reader.ranks[y] = n + 2
    return call.to_first(y)


def _flipped(w: np.ndarray, groups: int) -> np.ndarray:
    """[C, O/g, k...] to [O, k..., C/g]."""
    split = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    moved = np.moveaxis(split, 1, -1)
    return moved.reshape(moved.shape[0] * moved.shape[1], *moved.shape[2:])


def _flipped_nodes(call: Call, w: Value, groups: int, n: int | None) -> Value:
    """The same for weights that are not constant."""
    if n is None:
        call.unsupported("with computed weights of unknown rank")
    shape = shape_of(call, w)
    tail = call.add("slice", [shape, call.const([1]), call.const([_MOST]), call.const([0]), None])
    split = call.add("reshape", [w, call.add("concat", [call.const([groups, -1]), tail], axis=0)], allowzero=0)
    moved = call.add("transpose", [split], perm=(0, 2, *range(3, n + 3), 1))
    rest = call.add("slice", [shape_of(call, moved), call.const([2]), call.const([_MOST]), call.const([0]), None])
    return call.add("reshape", [moved, call.add("concat", [call.const([-1]), rest], axis=0)], allowzero=0)


def _pool(op: str, *extra: str) -> Rule:
    return lambda call, attrs: pool(call, attrs, op, call.x(0), len(call.outputs), *extra)


def pool(call: Call, attrs: Attrs, op: str, x: Value, outputs: int, *extra: str) -> list[Value]:
    """A pool over x; `channels_last` among the attributes says that its channels are, and those of the results."""
    window, n = _windows(call, attrs, _spatial(call, (x, 2)))
    kernel = attrs["kernel_shape"]
    if not kernel or not all(1 <= k < _MOST for k in kernel):
        call.fail(f"expected kernel_shape from 1 on, found {kernel}")
    window |= {name: attrs[name] for name in ("kernel_shape", "ceil_mode", *extra)}
    last = attrs.get("channels_last")
    found = call.add_many(op, [x if last else call.to_last(x)], window, outputs)
    return found if last else [call.to_first(y) for y in found]


def _global(op: str) -> Rule:
    def rule(call: Call, attrs: Attrs) -> Value:
        name = {1: "reduce_l1", 2: "reduce_l2"}.get(attrs["p"]) if "p" in attrs else op
        if name is None:
            return call.add("global_lp_pool", [call.x(0)], p=attrs["p"])
        return global_pool(call, name, call.x(0))

    return rule


def global_pool(call: Call, op: str, x: Value, last: bool = False) -> Value:
    """A reduction over the spatial axes; `last`: the channels are."""
    y = call.add(op, [x if last else call.to_last(x)], axes="spatial", keepdims=1, noop_with_empty_axes=0)
    return y if last else call.to_first(y)


def _channelwise(op: str) -> Rule:
    """Operators of one output that are the same but for where the channels are."""

    def rule(call: Call, attrs: Attrs) -> Value:
        return call.to_first(call.add(op, [call.to_last(call.x(0)), *call.inputs[1:]], **attrs))

    return rule


def _batch_normalization(call: Call, attrs: Attrs) -> list[Value]:
    x, (scale, bias, mean, var) = call.to_last(call.x(0)), call.inputs[1:5]
    epsilon = attrs["epsilon"]
    if attrs["training_mode"] not in (0, 1):
        call.fail(f"expected training_mode to be 0 or 1, found {attrs['training_mode']}")
    if not attrs["training_mode"]:
        if len(call.outputs) > 1:
            call.fail("expected one output unless training_mode is set, found more")
        return [call.to_first(call.add("batch_normalization", [x, scale, bias, mean, var], epsilon=epsilon))]
    channels = call.add("shape", [call.x(0)], start=1, end=2)
    rows = call.add("reshape", [x, call.add("concat", [call.const([-1]), channels], axis=0)], allowzero=0)
    kept: Attrs = {"keepdims": 0, "noop_with_empty_axes": 0}
    now_mean = call.add("reduce_mean", [rows, call.const([0])], **kept)
    distance = call.add("sub", [rows, now_mean])
    now_var = call.add("reduce_mean", [call.add("mul", [distance, distance]), call.const([0])], **kept)
    y = call.to_first(call.add("batch_normalization", [x, scale, bias, now_mean, now_var], epsilon=epsilon))
    results = [y]
    for old, new in ((mean, now_mean), (var, now_var)):
        if len(results) < len(call.outputs):
            shares = (attrs["momentum"], 1 - attrs["momentum"])
            like = [call.add("cast_like", [call.const(f, dtype=np.float32), old], **_CAST) for f in shares]
            kept_old = call.add("reshape", [old, channels], allowzero=1)
            results.append(call.add("add", [call.add("mul", [kept_old, like[0]]), call.add("mul", [new, like[1]])]))
    return results


def _deform_conv(call: Call, attrs: Attrs) -> Value:
    window, _ = _windows(call, {**attrs, "auto_pad": "NOTSET"}, _spatial(call, (call.x(0), 2), (call.x(1), 2)))
    del window["auto_pad"]
    if attrs["kernel_shape"]:
        window["kernel_shape"] = attrs["kernel_shape"]
    groups, offset_group = _groups(call, attrs), attrs["offset_group"]
    return call.add("deform_conv", call.inputs, groups=groups, offset_group=offset_group, **window)


SPATIAL: dict[str, Rule] = {
    "Conv": _convolution("conv", 1),
    "ConvInteger": _convolution("conv_integer", 1),
    "ConvTranspose": _conv_transpose,
    "DeformConv": _deform_conv,
    "MaxPool": _pool("max_pool", "storage_order"),
    "AveragePool": _pool("average_pool", "count_include_pad"),
    "LpPool": _pool("lp_pool", "p"),
    "GlobalAveragePool": _global("reduce_mean"),
    "GlobalMaxPool": _global("reduce_max"),
    "GlobalLpPool": _global("reduce_l2"),
    "BatchNormalization": _batch_normalization,
    "InstanceNormalization": _channelwise("instance_normalization"),
    "LRN": _channelwise("lrn"),
    "DepthToSpace": _channelwise("depth_to_space"),
    "SpaceToDepth": _channelwise("space_to_depth"),
}
