"""Pools over sliding windows, channels last: x [N, spatial..., C]. Semantics: ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import INT64, Node, TensorType
from . import check
from .inference import Types, lowest, shown
from .registry import REQUIRED, Layout, Quant, attr, define, fail
from .window import output_size, padded, reach, resolve_pads, tap, window_attrs
from .work import window

POOL = {
    "kernel_shape": REQUIRED,
    "strides": None,
    "dilations": None,
    "pads": None,
    "ceil_mode": 0,
    "auto_pad": "NOTSET",
}


def _window(node: Node, spatial: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """(begin, end, output extents, window attributes) over the given spatial extents."""
    kernel = tuple(attr(node, "kernel_shape"))
    a = window_attrs(node, len(spatial), kernel)
    a["kernel"] = kernel
    begin, end = resolve_pads(spatial, kernel, a["strides"], a["dilations"], a["auto_pad"], a["pads"])
    # A window that lies in padding alone has no elements.
    extents = reach([1] * len(kernel), kernel, a["strides"], a["dilations"])
    if a["auto_pad"] == "NOTSET" and any(p >= k for p, k in zip(a["pads"], 2 * extents, strict=True)):
        fail(node, f"pads must be less than the window {tuple(extents)}, found {a['pads']}")
    ceil_mode = attr(node, "ceil_mode") if a["auto_pad"] in ("NOTSET", "VALID") else 0
    return begin, end, output_size(spatial, kernel, a["strides"], a["dilations"], begin, end, ceil_mode), a


def infer_pool(node: Node, types: Types) -> list[TensorType]:
    x = types[0]
    rank = len(attr(node, "kernel_shape"))
    check.operand(node, x, f"x {rank + 2}")
    shape = x.shape if x.shape is not None else (None,) * (rank + 2)
    _, _, out, a = _window(node, shape[1:-1])
    if any(n is not None and n < 1 for n in out) and 0 not in shape[1:-1]:
        fail(node, f"window {a['kernel']} with dilations {a['dilations']} exceeds the padded input {shown(shape)}")
    y = (shape[0], *out, shape[-1])
    return [TensorType(x.dtype, y), TensorType(INT64, y)]


def _trimmed_window(node: Node, spatial: Any) -> tuple[Any, Any, dict[str, Any]]:
    """(begin, output extents, window attributes) without the rows and columns of the window that lie in padding
    everywhere.

    One element at least remains, be it one that always lies in padding.
    """
    begin, _, out, a = _window(node, spatial)
    starts, kernel = [], []
    for size, b, n, k, s, d in zip(spatial, begin, out, a["kernel"], a["strides"], a["dilations"], strict=True):
        first = min(max(-(((n - 1) * s - b) // d), 0), k - 1)
        kernel.append(min(max((size - 1 + b) // d, first), k - 1) + 1 - first)
        starts.append(b - first * d)
    return starts, out, a | {"kernel": tuple(kernel)}


def max_pool(node: Node, inputs: list[Any]) -> list[Any]:
    """[y] or [y, indices]; the first of equal elements wins. Padding counts as the lowest number, and so does NaN."""
    x = inputs[0]
    begin, out, a = _trimmed_window(node, x.shape[1:-1])
    extents = reach(out, a["kernel"], a["strides"], a["dilations"])
    wide = padded(x, begin, extents, lowest(x.dtype))
    y = np.full((x.shape[0], *out, x.shape[-1]), lowest(x.dtype), x.dtype)
    if len(node.outputs) == 1:
        for index in np.ndindex(*a["kernel"]):
            np.fmax(y, wide[tap(index, out, a["strides"], a["dilations"])], out=y)
        return [y]
    where = padded(flat_indices(x.shape, attr(node, "storage_order")), begin, extents, -1)
    best = np.full(y.shape, -1, np.int64)
    for index in np.ndindex(*a["kernel"]):
        span = tap(index, out, a["strides"], a["dilations"])
        better = (where[span] >= 0) & ((best < 0) | (wide[span] > y))
        y = np.fmax(y, np.where(better, wide[span], y))
        best = np.where(better, where[span], best)
    return [y, best]


def flat_indices(shape: tuple[int, ...], column_major: int) -> np.ndarray:
    """For every element of x [N, spatial..., C], its place in the flat [N, C, spatial...]: ONNX's indices."""
    n, *spatial, c = shape
    area = int(np.prod(spatial))
    pixels = np.arange(area).reshape(spatial, order="F" if column_major else "C")
    planes = np.arange(n * c).reshape(n, *[1] * len(spatial), c)
    return planes * area + pixels[None, ..., None]


def average_pool(node: Node, inputs: list[Any]) -> list[Any]:
    x = inputs[0]
    total = _summed(node, x.astype(np.float32 if x.dtype == np.float16 else x.dtype, copy=False))
    # A dilated window may step over all of the data: 0, as onnxruntime.
    with np.errstate(all="ignore"):
        return [(total / np.maximum(counts(node, x.shape[1:-1]), 1)).astype(x.dtype, copy=False)]


def counts(node: Node, spatial: Any) -> np.ndarray:
    """How many elements, with `count_include_pad` of the padding too, each window has: [out..., 1]."""
    begin, end, out, a = _window(node, spatial)
    count = np.ones(1)
    for size, b, e, n, k, s, d in zip(spatial, begin, end, out, a["kernel"], a["strides"], a["dilations"], strict=True):
        if attr(node, "count_include_pad"):
            size, b = b + size + e, 0
        start = np.arange(n) * s - b
        met = np.clip((size - 1 - start) // d + 1, 0, k) - np.clip(-(start // d), 0, k)
        count = count[..., None, :] * np.maximum(met, 0)[:, None]
    return count


def lp_pool(node: Node, inputs: list[Any]) -> list[Any]:
    x, p = inputs[0], attr(node, "p")
    total = _summed(node, np.abs(x) ** p)
    return [(total ** (1.0 / p)).astype(x.dtype, copy=False)]


def _summed(node: Node, x: np.ndarray) -> np.ndarray:
    """The sum of each window of x."""
    begin, out, a = _trimmed_window(node, x.shape[1:-1])
    wide = padded(x, begin, reach(out, a["kernel"], a["strides"], a["dilations"]), 0)
    total = np.zeros((wide.shape[0], *out, wide.shape[-1]), wide.dtype)
    for index in np.ndindex(*a["kernel"]):
        total += wide[tap(index, out, a["strides"], a["dilations"])]
    return total


define(
    "max_pool", infer_pool, max_pool, inputs=(1, 1), attrs={**POOL, "storage_order": 0},
    layout=Layout.WINDOW, moves=True, extras_at=1, work=window(),
)  # fmt: skip
define(
    "average_pool", infer_pool, average_pool, inputs=(1, 1), attrs={**POOL, "count_include_pad": 0},
    layout=Layout.WINDOW, quant=Quant.INTEGERS, extras_at=1, sums=True, work=window(),
)  # fmt: skip
define("lp_pool", infer_pool, lp_pool, inputs=(1, 1), attrs={**POOL, "p": 2}, layout=Layout.WINDOW, work=window())
