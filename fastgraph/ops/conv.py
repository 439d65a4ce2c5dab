"""Convolutions, channels last: x [N, spatial..., C], w [O, kernel..., C / groups], b [O].

Semantics: ONNX Conv, ConvTranspose and ConvInteger.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Dim, Node, TensorType
from .common import INT32, Types, fail, need_rank, one_dtype, shown
from .registry import attr, define
from .window import output_size, padded, reach, resolve_pads, tap, window_attrs

WINDOW: dict[str, Any] = {
    "strides": None,
    "dilations": None,
    "pads": None,
    "groups": 1,
    "auto_pad": "NOTSET",
    "kernel_shape": None,
}
TRANSPOSED = {**WINDOW, "output_padding": None, "output_shape": None}


def conv_shape(
    node: Node, x: TensorType, w: TensorType, b: TensorType | None = None
) -> tuple[Dim, ...] | None:
    """The output shape of a convolution, as far as it is known."""
    need_rank(node, x, 3)
    need_rank(node, w, 3, what="weight")
    if w.shape is None:
        return None if x.shape is None else (x.shape[0],) + (None,) * (len(x.shape) - 1)
    rank = len(w.shape) - 2
    shape = x.shape if x.shape is not None else (None,) * (rank + 2)
    if len(shape) != rank + 2:
        fail(node, f"input {shown(x.shape)} and weight {shown(w.shape)} must have the same rank")
    a = window_attrs(node, rank, w.shape[1:-1])  # type: ignore[arg-type]
    _check_channels(node, shape[-1], w.shape, b)
    kernel = w.shape[1:-1]
    begin, end = resolve_pads(shape[1:-1], kernel, a["strides"], a["dilations"], a["auto_pad"], a["pads"])
    out = output_size(shape[1:-1], kernel, a["strides"], a["dilations"], begin, end)
    if any(n is not None and n < 1 for n in out) and 0 not in shape[1:-1]:
        fail(
            node,
            f"kernel {shown(kernel)} with dilations {a['dilations']} exceeds the padded input {shown(shape)}",
        )
    return (shape[0], *out, w.shape[0])


def _check_channels(node: Node, channels: Dim, w: Any, b: TensorType | None) -> None:
    groups = attr(node, "groups")
    if groups < 1 or (isinstance(w[0], int) and w[0] % groups):
        fail(node, f"groups {groups} must divide the output channels {w[0]}")
    if isinstance(channels, int) and isinstance(w[-1], int) and channels != w[-1] * groups:
        fail(
            node,
            f"weight {shown(w)} with groups {groups} needs {w[-1] * groups} channels, found {channels}",
        )
    if b is not None and b.shape is not None:
        if len(b.shape) != 1 or (
            isinstance(b.shape[0], int) and isinstance(w[0], int) and b.shape[0] != w[0]
        ):
            fail(node, f"bias must have shape [{w[0]}], found {shown(b.shape)}")


def infer_conv(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(one_dtype(node, types), conv_shape(node, *types))]


def convolve(node: Node, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution without bias, summed in the arrays' own type."""
    kernel, groups = w.shape[1:-1], attr(node, "groups")
    a = window_attrs(node, len(kernel), kernel)
    strides, dilations = a["strides"], a["dilations"]
    begin, end = resolve_pads(x.shape[1:-1], kernel, strides, dilations, a["auto_pad"], a["pads"])
    out = [max(n or 0, 0) for n in output_size(x.shape[1:-1], kernel, strides, dilations, begin, end)]
    y = np.zeros((x.shape[0], *out, w.shape[0]), x.dtype)
    if y.size == 0:
        return y
    wide = padded(x, begin, reach(out, kernel, strides, dilations), 0)
    for index in np.ndindex(*kernel):
        y += grouped(wide[tap(index, out, strides, dilations)], w[(slice(None), *index)], groups)
    return y


def grouped(x: np.ndarray, w: np.ndarray, groups: int) -> np.ndarray:
    """x [..., C] times w [O, C / groups] for every group of channels: [..., O]."""
    if groups == 1:
        return x @ w.T
    lead = x.shape[:-1]
    if w.shape[1] == 1:
        return (x[..., None] * w.reshape(groups, -1)).reshape(*lead, -1)
    split = x.reshape(-1, groups, w.shape[1]).transpose(1, 0, 2)
    product = split @ w.reshape(groups, -1, w.shape[1]).transpose(0, 2, 1)
    return product.transpose(1, 0, 2).reshape(*lead, -1)


def _with_bias(y: np.ndarray, b: np.ndarray | None, dtype: np.dtype) -> list[np.ndarray]:
    return [(y if b is None else y + b).astype(dtype, copy=False)]


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == np.float16 else array


def conv(node: Node, inputs: list[Any]) -> list[Any]:
    x, w, b = inputs
    return _with_bias(convolve(node, _wide(x), _wide(w)), b, x.dtype)


def conv_integer(node: Node, inputs: list[Any]) -> list[Any]:
    x, w, x_zero, w_zero = inputs
    return [convolve(node, minus(x, x_zero), minus(w, w_zero, axis=0))]


def minus(array: np.ndarray, zero: np.ndarray | None, axis: int = -1) -> np.ndarray:
    """Stored integers as int32 minus their zero point: one number, or one per entry of `axis`."""
    wide = array.astype(np.int32)
    if zero is None:
        return wide
    zero = zero.astype(np.int32)
    if zero.size == 1:
        return wide - zero.reshape(())
    shape = [1] * array.ndim
    shape[axis] = -1
    return wide - zero.reshape(shape)


def infer_conv_integer(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(INT32, conv_shape(node, types[0], types[1]))]


def transposed_window(node: Node, spatial: Any, kernel: Any) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """(begin padding, output extents, window attributes) of a transposed convolution; None: not known."""
    rank = len(kernel)
    a = window_attrs(node, rank, kernel)
    extra = attr(node, "output_padding") or (0,) * rank
    wanted = attr(node, "output_shape") or (None,) * rank
    wanted = wanted[-rank - 1 : -1] if len(wanted) == rank + 2 else wanted
    if len(extra) != rank or len(wanted) != rank:
        fail(node, f"output_padding and output_shape must have {rank} numbers, found {extra} and {wanted}")
    begin: list[Any] = []
    out: list[Any] = []
    for i, (size, k, s, d) in enumerate(zip(spatial, kernel, a["strides"], a["dilations"], strict=True)):
        want = wanted[i]
        if not (isinstance(size, int) and isinstance(k, int)):
            begin.append(None)
            out.append(want)
            continue
        full = s * (size - 1) + extra[i] + (k - 1) * d + 1
        if want is None and a["auto_pad"].startswith("SAME"):
            want = size * s
        if want is None:
            first, last = (0, 0) if a["auto_pad"] == "VALID" else (a["pads"][i], a["pads"][rank + i])
            begin.append(first)
            out.append(full - first - last)
        else:
            total = max(full - want, 0)
            begin.append(total // 2 if a["auto_pad"] == "SAME_UPPER" else total - total // 2)
            out.append(want)
    return begin, out, a


def infer_conv_transpose(node: Node, types: Types) -> list[TensorType]:
    x, w, b = types
    need_rank(node, x, 3)
    need_rank(node, w, 3, what="weight")
    dtype = one_dtype(node, types)
    if w.shape is None:
        return [TensorType(dtype, None if x.shape is None else (x.shape[0],) + (None,) * (len(x.shape) - 1))]
    shape = x.shape if x.shape is not None else (None,) * len(w.shape)
    if len(shape) != len(w.shape):
        fail(node, f"input {shown(x.shape)} and weight {shown(w.shape)} must have the same rank")
    _check_channels(node, shape[-1], w.shape, b)
    _, out, _ = transposed_window(node, shape[1:-1], w.shape[1:-1])
    return [TensorType(dtype, (shape[0], *out, w.shape[0]))]


def conv_transpose(node: Node, inputs: list[Any]) -> list[Any]:
    x, w, b = inputs
    groups, kernel = attr(node, "groups"), w.shape[1:-1]
    begin, out, a = transposed_window(node, x.shape[1:-1], kernel)
    extents = reach(x.shape[1:-1], kernel, a["strides"], a["dilations"])
    full = np.zeros((x.shape[0], *extents, w.shape[0]), _wide(x).dtype)
    if x.size:
        for index in np.ndindex(*kernel):
            full[tap(index, x.shape[1:-1], a["strides"], a["dilations"])] += grouped(
                _wide(x), _wide(w[(slice(None), *index)]), groups
            )
    return _with_bias(padded(full, [-n for n in begin], out, 0), b, x.dtype)


define("conv", infer_conv, conv, inputs=(2, 3), attrs=WINDOW)
define("conv_integer", infer_conv_integer, conv_integer, inputs=(2, 4), attrs=WINDOW)
define("conv_transpose", infer_conv_transpose, conv_transpose, inputs=(2, 3), attrs=TRANSPOSED)
