"""Max pooling that tells where each maximum was, and its inverse; channels last.

Semantics: tflite/kernels/perception/{max_pool_with_argmax, max_unpooling_2d}.cc (places are flat positions in a
picture's height, width and channels) and MediaPipe's operators of that kind (positions in the window, plus 0.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import FLOAT32, Node, TensorType
from ..ops import check
from ..ops.inference import Types, lowest
from ..ops.registry import REQUIRED, attr, define, fail
from ..ops.work import window

WIDEST = 1 << 15
_WINDOW = {"kernel_shape": REQUIRED, "strides": REQUIRED, "same": REQUIRED, "in_window": 0}


def _extents(node: Node, shape: Any) -> list[tuple[Any, int]]:
    """(number of windows, pad before the first) of height and width."""
    found = []
    for n, k, s in zip(shape[1:3], attr(node, "kernel_shape"), attr(node, "strides"), strict=True):
        if not 1 <= k <= WIDEST or s < 1:
            fail(node, f"windows must be from 1 to {WIDEST} wide and strides positive, found {k} and {s}")
        if not isinstance(n, int):
            found.append((None, 0))
            continue
        count = -(-n // s) if attr(node, "same") else max((n - k + s) // s, 0)
        found.append((count, max((count - 1) * s + k - n, 0) // 2))
    return found


@check.takes("x 4")
def _infer_pool(node: Node, types: Types) -> list[TensorType]:
    x, places = types[0], np.dtype(attr(node, "places_dtype"))
    if x.shape is None:
        return [TensorType(x.dtype, None), TensorType(places, None)]
    shape = (x.shape[0], *(count for count, _ in _extents(node, x.shape)), x.shape[3])
    return [TensorType(x.dtype, shape), TensorType(places, shape)]


def _pool(node: Node, inputs: list[Any]) -> list[Any]:
    """(maxima, places): of equal elements the first. The batch counts where `with_batch` says so."""
    x = inputs[0]
    _, height, width, depth = x.shape
    (rows, top), (columns, left) = _extents(node, x.shape)
    (kh, kw), (sh, sw) = attr(node, "kernel_shape"), attr(node, "strides")
    low = lowest(x.dtype)
    bottom, right = (rows - 1) * sh + kh - height - top, (columns - 1) * sw + kw - width - left
    grown = ((0, 0), (top, max(bottom, 0)), (left, max(right, 0)), (0, 0))
    views = np.lib.stride_tricks.sliding_window_view(np.pad(x, grown, constant_values=low), (kh, kw), axis=(1, 2))
    windows = views[:, ::sh, ::sw][:, :rows, :columns].reshape(len(x), rows, columns, depth, kh * kw)
    best = windows.argmax(axis=-1)
    y = np.take_along_axis(windows, best[..., None], -1)[..., 0]
    dtype = attr(node, "places_dtype")
    if attr(node, "in_window"):
        return [y, best.astype(dtype) + np.dtype(dtype).type(0.1)]
    row = best // kw + (np.arange(rows) * sh - top)[:, None, None]
    column = best % kw + (np.arange(columns) * sw - left)[:, None]
    places = (row * width + column) * depth + np.arange(depth)
    if attr(node, "with_batch"):
        places += np.arange(len(x))[:, None, None, None] * (height * width * depth)
    return [y, places.astype(dtype)]


def _unpooled(node: Node, shape: Any) -> tuple[Any, ...]:
    extents: list[Any] = []
    for n, k, s in zip(shape[1:3], attr(node, "kernel_shape"), attr(node, "strides"), strict=True):
        extents.append(None if not isinstance(n, int) else n * s if attr(node, "same") else (n - 1) * s + k)
    return (shape[0], *extents, shape[3])


@check.takes("x 4, places")
def _infer_unpool(node: Node, types: Types) -> list[TensorType]:
    return [TensorType(types[0].dtype, None if types[0].shape is None else _unpooled(node, types[0].shape))]


def _unpool(node: Node, inputs: list[Any]) -> list[Any]:
    """Zeros with x at its places."""
    x, places = inputs
    shape = _unpooled(node, x.shape)
    flat = places.astype(np.int64)
    if attr(node, "in_window"):
        kw, (sh, sw) = attr(node, "kernel_shape")[1], attr(node, "strides")
        (_, top), (_, left) = _extents(node, shape)
        row = flat // kw + (np.arange(x.shape[1]) * sh - top)[:, None, None]
        column = flat % kw + (np.arange(x.shape[2]) * sw - left)[:, None]
        flat = (row * shape[2] + column) * shape[3] + np.arange(shape[3])
    size = shape[1] * shape[2] * shape[3]
    if flat.size and not 0 <= flat.min() <= flat.max() < size:
        fail(node, f"places must be from 0 to {size - 1}, found {flat.min()} to {flat.max()}")
    y = np.zeros((len(x), size), x.dtype)
    for one, where, values in zip(y, flat.reshape(len(x), -1), x.reshape(len(x), -1), strict=True):
        one[where] = values
    return [y.reshape(shape)]


define(
    "max_pool_places", _infer_pool, _pool, attrs={**_WINDOW, "places_dtype": FLOAT32, "with_batch": 0}, work=window()
)
define("max_unpool_places", _infer_unpool, _unpool, attrs=_WINDOW)
