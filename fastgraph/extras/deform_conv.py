"""Convolutions whose taps are read at offsets of their own, channels first. Semantics: ONNX.

In two dimensions and f32 they are samples and products; what else there is keeps to the reference.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir import FLOAT32, Node, TensorType
from ..ops import check
from ..ops.inference import Types, product, shown
from ..ops.registry import attr, define, fail
from ..ops.sample import sampled
from ..ops.window import output_size, window_attrs
from ..ops.work import window
from ..rules.operands import known
from ..rules.rule import rule
from ..rules.sweep import Sweep


def _deform_window(node: Node, x: Any, w: Any) -> tuple[tuple[int | None, ...], dict[str, Any]]:
    rank = len(w) - 2
    a = window_attrs(node, rank, w[2:])
    begin, end = a["pads"][:rank], a["pads"][rank:]
    return output_size(x[2:], w[2:], a["strides"], a["dilations"], begin, end), a


@check.takes("x f 3+, weight 3+, offset, bias?, mask?")
def _infer_deform_conv(node: Node, types: Types) -> list[TensorType]:
    x, w, offset, b, mask = types
    check.one_dtype(node, types)
    for name in ("groups", "offset_group"):
        check.at_least(node, name, attr(node, name), 1)
    if x.shape is None or w.shape is None:
        return [TensorType(x.dtype, None)]
    if len(x.shape) != len(w.shape):
        fail(node, f"input {shown(x.shape)} and weight {shown(w.shape)} must have the same rank")
    out, _ = _deform_window(node, x.shape, w.shape)
    groups, parts, channels = attr(node, "groups"), attr(node, "offset_group"), x.shape[1]
    if any(isinstance(d, int) and d % n for d, n in ((channels, parts), (channels, groups), (w.shape[0], groups))):
        fail(node, f"group {groups} and offset_group {parts} must divide the channels {channels} and {w.shape[0]}")
    if attr(node, "kernel_shape"):
        check.shape(node, w, "weight", *w.shape[:2], *attr(node, "kernel_shape"))
    check.shape(node, w, "weight", w.shape[0], channels // groups if isinstance(channels, int) else None, *w.shape[2:])
    taps = product(w.shape[2:])
    each = None if taps is None else taps * parts
    check.shape(node, offset, "offset", x.shape[0], None if each is None else each * len(out), *out)
    check.shape(node, mask, "mask", x.shape[0], each, *out)
    check.shape(node, b, "bias", w.shape[0])
    return [TensorType(x.dtype, (x.shape[0], w.shape[0], *out))]


def _deform_conv(node: Node, inputs: list[Any]) -> list[Any]:
    """Convolution whose every tap is read, by linear sampling, at its own offset and weighted by the mask."""
    x, w, offset, b, mask = inputs
    out, a = _deform_window(node, x.shape, w.shape)
    kernel, rank, n = w.shape[2:], w.ndim - 2, x.shape[0]
    groups, parts, taps = attr(node, "groups"), attr(node, "offset_group"), math.prod(kernel)
    points = math.prod(out)  # type: ignore[arg-type]
    offset = offset.reshape(n, parts, taps, rank, points)
    factor = np.ones((n, parts, taps, points), x.dtype) if mask is None else mask.reshape(n, parts, taps, points)
    starts = np.indices(out).reshape(rank, points).T * a["strides"]  # type: ignore[arg-type]
    y = np.zeros((n, groups, w.shape[0] // groups, points), np.promote_types(x.dtype, np.float32))
    weights = w.reshape(groups, -1, w.shape[1], taps)
    share = x.shape[1] // parts
    for tap, index in enumerate(np.ndindex(*kernel)):
        base = starts + np.array(index) * a["dilations"] - a["pads"][:rank]
        columns = [
            sampled(x[:, p * share : (p + 1) * share], base + offset[:, p, tap].swapaxes(1, 2), "linear", "zeros")
            * factor[:, p, tap, None]
            for p in range(parts)
        ]
        column = np.concatenate(columns, 1).reshape(n, groups, -1, points)
        y += np.einsum("ngcp,goc->ngop", column, weights[..., tap])
    y = y.reshape(n, w.shape[0], *out)
    y = y if b is None else y + b.reshape(-1, *(1,) * rank)
    return [y.astype(x.dtype)]


define(
    "deform_conv", _infer_deform_conv, _deform_conv,
    attrs={"groups": 1, "offset_group": 1, "strides": None, "dilations": None, "pads": None, "kernel_shape": None},
    weights=1, bias=3, work=window(1),
)  # fmt: skip


@rule("rare", "deform_conv")
def deform_conv(g: Sweep, node: Node) -> bool:
    """In two dimensions: samples of the channels at the places of all taps, times a mask, times the weights."""
    x, w, offset, bias, mask = node.x, *(node.input(i) for i in range(1, 5))
    if w is None or offset is None or not known(x, w, offset, bias, mask, node.out, dtypes=[FLOAT32]):
        return False
    if len(x.type.dims) != 4:
        return False
    (n, channels, *_), (made, each, *kernel), out = x.type.dims, w.type.dims, node.out.type.dims[2:]
    groups, parts = attr(node, "groups"), attr(node, "offset_group")
    taps, points, a = math.prod(kernel), math.prod(out), window_attrs(node, 2, kernel)
    starts = np.indices(out).reshape(2, points) * np.array(a["strides"])[:, None] - np.array(a["pads"][:2])[:, None]
    steps = np.indices(kernel).reshape(2, taps).T * a["dilations"]
    base = (steps[:, :, None] + starts[None]).astype(np.float32)
    where = g.shape(offset, n * parts, taps, 2, points) + base[None]
    where = g.transpose(g.join([g.cut(where, 2, 1, 2), g.cut(where, 2, 0, 1)], 2), 0, 1, 3, 2)
    columns = g("resample", g.shape(x, n * parts, channels // parts, *x.type.dims[2:]), where)
    if mask is not None:
        columns = columns * g.shape(mask, n * parts, 1, taps, points)
    rows = g.transpose(g.shape(columns, n, channels * taps, points), 0, 2, 1)
    rows, flat = g.shape(rows, n * points, channels * taps), g.shape(w, made, each * taps)
    products = []
    for k in range(groups):
        own = g.cut(rows, 1, k * each * taps, (k + 1) * each * taps)
        factors = g.cut(flat, 0, k * made // groups, (k + 1) * made // groups)
        products.append(own @ g.transpose(factors, 1, 0))
    y = g.join(products, 1)
    y = y if bias is None else y + g.shape(bias, made)
    return g.becomes(g.transpose(g.shape(y, n, points, made), 0, 2, 1))
