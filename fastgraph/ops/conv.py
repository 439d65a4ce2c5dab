"""Convolutions, channels last: x [N, spatial..., C], w [O, kernel..., C / groups], b [O].

Semantics: ONNX Conv, ConvTranspose and ConvInteger.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import INT32, Dim, Node, TensorType
from . import check
from .inference import Types, shown
from .registry import LAYER, Layout, Quant, attr, define, fail
from .window import output_size, resolve_pads, steps_within, window_attrs
from .work import window

WINDOW: dict[str, Any] = {
    "strides": None,
    "dilations": None,
    "pads": None,
    "groups": 1,
    "auto_pad": "NOTSET",
    "kernel_shape": None,
}
TRANSPOSED = {**WINDOW, "output_padding": None, "output_shape": None}


def conv_shape(node: Node, x: TensorType, w: TensorType, b: TensorType | None = None) -> tuple[Dim, ...] | None:
    """The output shape of a convolution, as far as it is known."""
    check.operand(node, x, "x 3+")
    check.operand(node, w, "weight 3+")
    if w.shape is None:
        return None if x.shape is None else (x.shape[0],) + (None,) * (len(x.shape) - 1)
    rank = len(w.shape) - 2
    shape = x.shape if x.shape is not None else (None,) * (rank + 2)
    if len(shape) != rank + 2:
        fail(node, f"input {shown(x.shape)} and weight {shown(w.shape)} must have the same rank")
    kernel = w.shape[1:-1]
    a = window_attrs(node, rank, kernel)  # type: ignore[arg-type]
    _check_channels(node, shape[-1], w, b)
    begin, end = resolve_pads(shape[1:-1], kernel, a["strides"], a["dilations"], a["auto_pad"], a["pads"])
    out = output_size(shape[1:-1], kernel, a["strides"], a["dilations"], begin, end)
    if any(n is not None and n < 1 for n in out) and 0 not in shape[1:-1]:
        fail(node, f"kernel {shown(kernel)} with dilations {a['dilations']} exceeds the padded input {shown(shape)}")
    return (shape[0], *out, w.shape[0])


def is_depthwise(node: Node) -> bool:
    """Whether each output channel of a convolution sees one input channel."""
    return bool(node.attrs["groups"] > 1 and node.attrs["groups"] == node.x.type.dims[-1])


def is_dense(node: Node) -> bool:
    """Whether a convolution is a dense layer of every pixel."""
    a, w = node.attrs, node.y
    ones = all(v == 1 for v in (*w.type.dims[1:-1], *a["strides"], a["groups"]))
    return ones and not any(a["pads"])


def _check_channels(node: Node, channels: Dim, weight: TensorType, b: TensorType | None) -> None:
    groups, w = attr(node, "groups"), weight.shape
    assert w is not None
    if attr(node, "kernel_shape"):
        check.shape(node, weight, "weight", w[0], *attr(node, "kernel_shape"), w[-1])
    if groups < 1 or (isinstance(w[0], int) and w[0] % groups):
        fail(node, f"groups {groups} must divide the output channels {w[0]}")
    if isinstance(channels, int) and isinstance(w[-1], int) and channels != w[-1] * groups:
        window, wanted = shown(w[1:-1]), w[-1] * groups
        fail(node, f"weight of window {window} with groups {groups} needs {wanted} channels, found {channels}")
    check.shape(node, b, "bias", w[0])


@check.takes("x f 3+, weight 3+, bias?")
def infer_conv(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(check.one_dtype(node, types), conv_shape(node, *types))]


def convolve(node: Node, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution without bias, summed in the arrays' own type."""
    kernel, groups = w.shape[1:-1], attr(node, "groups")
    a = window_attrs(node, len(kernel), kernel)
    strides, dilations = a["strides"], a["dilations"]
    begin, end = resolve_pads(x.shape[1:-1], kernel, strides, dilations, a["auto_pad"], a["pads"])
    out = [max(n or 0, 0) for n in output_size(x.shape[1:-1], kernel, strides, dilations, begin, end)]
    y = np.zeros((x.shape[0], *out, w.shape[0]), x.dtype)
    for index in np.ndindex(*kernel):
        small, wide = _overlap(index, begin, strides, dilations, out, x.shape[1:-1])
        if y[small].size:
            y[small] += grouped(x[wide], w[(slice(None), *index)], groups)
    return y


def _overlap(index: Any, begin: Any, strides: Any, dilations: Any, count: Any, extents: Any) -> tuple[Any, Any]:
    """(slices of y, slices of x) for the kernel element `index`: the outputs at which it lies inside the image, and the
    elements that it multiplies there."""
    windows, places = [slice(None)], [slice(None)]
    for i, b, s, d, n, extent in zip(index, begin, strides, dilations, count, extents, strict=True):
        found = steps_within(i * d - b, s, n, extent)
        first = found.start * s + i * d - b
        windows.append(slice(found.start, found.stop))
        places.append(slice(first, first + (len(found) - 1) * s + 1, s) if found else slice(0, 0))
    return tuple(windows), tuple(places)


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


def need_zeros(node: Node, x: TensorType, zero: TensorType | None, what: str, count: Dim) -> None:
    """ModelError unless a zero point is absent, or of x's element type and one number or (`count` not None) as many."""
    check.one_dtype(node, [x, zero])
    one = zero is None or zero.shape is None or len(zero.shape) != 1 or zero.shape[0] == 1
    if one or count is None:
        check.operand(node, zero, f"{what} iuf one")
    else:
        check.shape(node, zero, what, count)


@check.takes("x iu 3+, weight iu 3+, x_zero_point?, w_zero_point?")
def infer_conv_integer(node: Node, types: Types) -> list[TensorType]:
    x, w, x_zero, w_zero = types
    need_zeros(node, x, x_zero, "x_zero_point", None)
    need_zeros(node, w, w_zero, "w_zero_point", w.shape[0] if w.shape else None)
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
    for number, s, d in zip(extra, a["strides"], a["dilations"], strict=True):
        if not 0 <= number < max(s, d):
            fail(node, f"output_padding must be from 0 to less than the stride {s} or dilation {d}, found {number}")
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


@check.takes("x f 3+, weight 3+, bias?")
def infer_conv_transpose(node: Node, types: Types) -> list[TensorType]:
    x, w, b = types
    dtype = check.one_dtype(node, types)
    if w.shape is None:
        return [TensorType(dtype, None if x.shape is None else (x.shape[0],) + (None,) * (len(x.shape) - 1))]
    shape = x.shape if x.shape is not None else (None,) * len(w.shape)
    if len(shape) != len(w.shape):
        fail(node, f"input {shown(x.shape)} and weight {shown(w.shape)} must have the same rank")
    _check_channels(node, shape[-1], w, b)
    _, out, _ = transposed_window(node, shape[1:-1], w.shape[1:-1])
    return [TensorType(dtype, (shape[0], *out, w.shape[0]))]


def conv_transpose(node: Node, inputs: list[Any]) -> list[Any]:
    x, w, b = inputs
    groups, kernel = attr(node, "groups"), w.shape[1:-1]
    begin, out, a = transposed_window(node, x.shape[1:-1], kernel)
    y = np.zeros((x.shape[0], *out, w.shape[0]), _wide(x).dtype)
    for index in np.ndindex(*kernel):
        small, wide = _overlap(index, begin, a["strides"], a["dilations"], x.shape[1:-1], out)
        if x[small].size:
            y[wide] += grouped(_wide(x[small]), _wide(w[(slice(None), *index)]), groups)
    return _with_bias(y, b, x.dtype)


define(
    "conv", infer_conv, conv, attrs=WINDOW,
    **LAYER, layout=Layout.WINDOW, quant=Quant.INTEGERS, sums=True, work=window(1),
)  # fmt: skip
define("conv_integer", infer_conv_integer, attrs=WINDOW, weights=1, layout=Layout.WINDOW, work=window(1))
define(
    "conv_transpose", infer_conv_transpose, conv_transpose, attrs=TRANSPOSED,
    **LAYER, quant=Quant.INTEGERS, sums=True, work=window(1, spreads=True),
)  # fmt: skip
