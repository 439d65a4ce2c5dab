"""Operators over images and other grids: ONNX puts the channels first, the graph last.

Activations are wrapped in transposes ("to_last", "to_first") that the layout pass cancels; constant weights
are transposed here, as views. Attributes of windows become full tuples of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import Value
from .call import Call, Rule

Attrs = dict[str, Any]

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_MOST = 1 << 31


def _windows(c: Call, attrs: Attrs, rank: int | None) -> tuple[Attrs, int | None]:
    """strides, dilations, pads and auto_pad as in the graph, and the number of spatial dimensions if known.

    `rank`: what the operands say about that number. ModelError when the attributes disagree with it or each
    other.
    """
    found: dict[str, float] = {"operands": rank} if rank is not None else {}
    found |= {n: len(attrs[n]) for n in ("kernel_shape", "strides", "dilations") if attrs.get(n)}
    if attrs.get("pads"):
        found["pads"] = len(attrs["pads"]) / 2
    if len(set(found.values())) > 1:
        c.fail(f"expected windows of one number of spatial dimensions, found {found}")
    n = next(iter(found.values()), None)
    if n is not None and not 1 <= n <= 30:
        c.fail(f"expected an input of batch, channels and spatial dimensions, found {n} of the last kind")
    auto_pad = attrs["auto_pad"]
    if auto_pad not in _AUTO_PADS:
        c.fail(f"expected auto_pad as one of {_AUTO_PADS}, found {auto_pad!r}")
    count = int(n or 0)
    window = {
        "strides": attrs.get("strides") or (1,) * count,
        "dilations": attrs.get("dilations") or (1,) * count,
        "pads": (attrs.get("pads") if auto_pad == "NOTSET" else None) or (0,) * (2 * count),
        "auto_pad": auto_pad,
    }
    for name, low in (("strides", 1), ("dilations", 1), ("pads", 0)):
        if not all(low <= value < _MOST for value in window[name]):
            c.fail(f"expected {name} from {low} on and below {_MOST}, found {window[name]}")
    if "group" in attrs:
        if not 1 <= attrs["group"] < _MOST:
            c.fail(f"expected a group count from 1 on and below {_MOST}, found {attrs['group']}")
        window["groups"] = attrs["group"]
    return window, int(n) if n is not None else None


def _spatial(c: Call, *values: Value) -> int | None:
    """Spatial dimensions by the ranks of an input and its weights."""
    ranks = [rank - 2 for v in values if (rank := c.known_rank(v)) is not None]
    if ranks and min(ranks) != max(ranks):
        c.fail(f"its input and its weights have {ranks[0]} and {ranks[1]} spatial dimensions")
    return ranks[0] if ranks else None


def _of_rank(c: Call, y: Value, spatial: int | None) -> Value:
    """A result whose rank the attributes tell."""
    if spatial is not None:
        c.reader.ranks[y] = spatial + 2
    return y


def convolution(
    c: Call, attrs: Attrs, op: str, inputs: Sequence[Value | None], weights_at: int, last: bool = False
) -> Value:
    """A convolution of `inputs`, x the first of them; `last`: the channels of x and the result are."""
    x, w = inputs[0], inputs[weights_at]
    assert x is not None and w is not None
    window, n = _windows(c, attrs, _spatial(c, x, w))
    found, kernel = list(inputs), attrs["kernel_shape"]
    found[0] = x if last else c.to_last(x)
    if w.data is None:
        found[weights_at] = c.to_last(w)
        window |= {"kernel_shape": kernel} if kernel else {}
    else:  # [O, C/g, k...] to [O, k..., C/g]
        if w.data.ndim < 3 or (kernel and kernel != w.data.shape[2:]):
            c.fail(f"expected weights [out, in, *{list(kernel or '?')}], found shape {list(w.data.shape)}")
        found[weights_at] = c.const(np.moveaxis(w.data, 1, -1))
    y = _of_rank(c, c(op, *found, **window), n)
    return y if last else c.to_first(y)


def _conv_transpose(c: Call, x: Value, w: Value, *_: Value | None, **attrs: Any) -> Value:
    window, n = _windows(c, attrs, _spatial(c, x, w))
    groups, kernel, output_shape = attrs["group"], attrs["kernel_shape"], attrs["output_shape"]
    if w.data is None:
        weights = _flipped_nodes(c, w, groups, n)
        window |= {"kernel_shape": kernel} if kernel else {}
    else:
        if w.data.ndim < 3 or w.data.shape[0] % groups or (kernel and kernel != w.data.shape[2:]):
            c.fail(f"expected weights [in, out/{groups}, *{list(kernel or '?')}], found {list(w.data.shape)}")
        weights = c.const(_flipped(w.data, groups))
    if output_shape and n is not None and len(output_shape) == n + 2:
        output_shape = output_shape[2:]
    window |= {"output_padding": attrs["output_padding"] or (0,) * (n or 0), "output_shape": output_shape or None}
    y = c("conv_transpose", c.to_last(x), weights, *c.inputs[2:], **window)
    return c.to_first(_of_rank(c, y, n))


def _flipped(w: np.ndarray, groups: int) -> np.ndarray:
    """[C, O/g, k...] to [O, k..., C/g]."""
    split = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    moved = np.moveaxis(split, 1, -1)
    return moved.reshape(moved.shape[0] * moved.shape[1], *moved.shape[2:])


def _flipped_nodes(c: Call, w: Value, groups: int, n: int | None) -> Value:
    """As `_flipped`, for weights that are not constant."""
    if n is None:
        c.unsupported("with computed weights of unknown rank")
    moved = c.transpose(c.reshape(w, groups, -1, c.extents(w, 1)), 0, 2, *range(3, n + 3), 1)
    return c.reshape(moved, -1, c.extents(moved, 2))


def pool(c: Call, attrs: Attrs, op: str, x: Value, outputs: int, *extra: str) -> list[Value]:
    """A pool over x; `channels_last` among the attributes says that its channels are, and those of the results."""
    window, _ = _windows(c, attrs, _spatial(c, x))
    kernel = attrs["kernel_shape"]
    if not kernel or not all(1 <= k < _MOST for k in kernel):
        c.fail(f"expected kernel_shape from 1 on and below {_MOST}, found {kernel}")
    window |= {name: attrs[name] for name in ("kernel_shape", "ceil_mode", *extra)}
    last = attrs.get("channels_last")
    found = c.several(op, outputs, x if last else c.to_last(x), **window)
    return found if last else [c.to_first(y) for y in found]


def _pool(op: str, *extra: str) -> Rule:
    return lambda c, x, **attrs: pool(c, attrs, op, x, len(c.outputs), *extra)


def global_pool(c: Call, op: str, x: Value, last: bool = False) -> Value:
    """A reduction over the spatial axes; `last`: the channels are."""
    y = c(op, x if last else c.to_last(x), axes="spatial", keepdims=1, noop_with_empty_axes=0)
    return y if last else c.to_first(y)


def _channelwise(op: str) -> Rule:
    """Operators of one output that are the same but for where the channels are."""
    return lambda c, x, *others, **attrs: c.to_first(c(op, c.to_last(x), *others, **attrs))


def _batch_normalization(
    c: Call, x: Value, scale: Value, bias: Value, mean: Value, var: Value, **attrs: Any
) -> list[Value]:
    """In training it is by the mean and variance of the batch, which become part of those that are kept. Below operator
    set 14 it saves the mean, too, and what distances from it are multiplied by.
    """
    epsilon, momentum, training = attrs["epsilon"], attrs["momentum"], attrs["training_mode"]
    if training not in (0, 1):
        c.fail(f"expected training_mode to be 0 or 1, found {training}")
    last = c.to_last(x)
    if not training:
        if len(c.outputs) > 1:
            c.fail("expected one output unless training_mode is set, found more")
        return [c.to_first(c("batch_normalization", last, scale, bias, mean, var, epsilon=epsilon))]
    channels = c.extent(x, 1)
    rows = c.reshape(last, -1, channels)
    batch_mean = c.mean(rows, [0])
    distance = rows - batch_mean
    batch_var = c.mean(distance * distance, [0])
    y = c("batch_normalization", last, scale, bias, batch_mean, batch_var, epsilon=epsilon)
    pairs = ((mean, batch_mean), (var, batch_var))
    kept = [c.reshape(old, channels, allowzero=1) * momentum + new * (1 - momentum) for old, new in pairs]
    saved = [batch_mean, c.reciprocal(c.sqrt(batch_var + epsilon))] if c.version < 14 else []
    return [c.to_first(y), *kept, *saved]


def _deform_conv(c: Call, x: Value, w: Value, *_: Value | None, **attrs: Any) -> Value:
    window, _n = _windows(c, {**attrs, "auto_pad": "NOTSET"}, _spatial(c, x, w))
    del window["auto_pad"]
    window |= {"kernel_shape": attrs["kernel_shape"]} if attrs["kernel_shape"] else {}
    return c("deform_conv", *c.inputs, offset_group=attrs["offset_group"], **window)


SPATIAL: dict[str, Rule] = {
    "Conv": lambda c, *inputs, **attrs: convolution(c, attrs, "conv", inputs, 1),
    "ConvInteger": lambda c, *inputs, **attrs: convolution(c, attrs, "conv_integer", inputs, 1),
    "ConvTranspose": _conv_transpose,
    "DeformConv": _deform_conv,
    "MaxPool": _pool("max_pool", "storage_order"),
    "AveragePool": _pool("average_pool", "count_include_pad"),
    "LpPool": _pool("lp_pool", "p"),
    "GlobalAveragePool": lambda c, x: global_pool(c, "reduce_mean", x),
    "GlobalMaxPool": lambda c, x: global_pool(c, "reduce_max", x),
    "GlobalLpPool": lambda c, x, p: global_pool(c, f"reduce_l{p}", x) if p in (1, 2) else c("global_lp_pool", x, p=p),
    "BatchNormalization": _batch_normalization,
    "InstanceNormalization": _channelwise("instance_normalization"),
    "LRN": _channelwise("lrn"),
    "GridSample": _channelwise("grid_sample"),
    "DepthToSpace": _channelwise("depth_to_space"),
    "SpaceToDepth": _channelwise("space_to_depth"),
}
