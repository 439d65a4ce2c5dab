"""Reductions over windows of any rank, and pads that also go between elements (or cut them off).

Semantics: StableHLO's reduce_window and pad; tflite/kernels/{reduce_window, dilate, stablehlo_pad,
stablehlo_reduce_window}.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir import Node, TensorType
from ..ops import check
from ..ops.registry import REQUIRED, attr, define, fail
from ..ops.shapes import Types
from ..ops.slices import REDUCTIONS
from ..ops.work import squares


def _spread(extent: Any, low: int, high: int, interior: int) -> Any:
    """An extent after padding."""
    return max(extent, 0) + max(extent - 1, 0) * interior + low + high if isinstance(extent, int) else None


def _pads(node: Node, rank: int) -> list[tuple[int, int, int]]:
    parts = [tuple(attr(node, name)) for name in ("low", "high", "interior")]
    if any(len(part) != rank for part in parts):
        fail(node, f"low, high and interior must have {rank} numbers each, found {parts}")
    check.at_least(node, "interior", min(parts[2], default=0), 0)
    return list(zip(*parts, strict=True))


def _infer_pad(node: Node, types: Types) -> list[TensorType]:
    x = types[0]
    check.one(node, types[1], "the padding", "biufc")
    check.one_dtype(node, types)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    shape = [_spread(d, *p) for d, p in zip(x.shape, _pads(node, len(x.shape)), strict=True)]
    return [TensorType(x.dtype, tuple(max(d, 0) if isinstance(d, int) else d for d in shape))]


def padded(x: np.ndarray, value: Any, pads: Sequence[tuple[int, int, int]]) -> np.ndarray:
    """x with `value` before, after and between its elements: (low, high, interior) by axis; negative low, high cut."""
    inner = np.full([_spread(d, 0, 0, i) for d, (_, _, i) in zip(x.shape, pads, strict=True)], value, x.dtype)
    inner[tuple(slice(None, None, i + 1) for _, _, i in pads)] = x
    wider = np.pad(inner, [(max(a, 0), max(b, 0)) for a, b, _ in pads], constant_values=np.asarray(value, x.dtype))
    cut = [slice(max(-a, 0), max(d - max(-b, 0), 0)) for d, (a, b, _) in zip(wider.shape, pads, strict=True)]
    return wider[tuple(cut)]


def _pad(node: Node, inputs: list[Any]) -> list[Any]:
    x, value = inputs
    return [np.ascontiguousarray(padded(x, value.reshape(-1)[0], _pads(node, x.ndim)))]


def _setting(node: Node, name: str, rank: int, default: Any) -> tuple[Any, ...]:
    found = tuple(attr(node, name)) or (default,) * rank
    if len(found) != rank:
        fail(node, f"{name} must have {rank} entries, found {len(found)}")
    return found


def _window(node: Node, rank: int) -> tuple[tuple[int, ...], ...]:
    """Window, strides, dilations of the base and of the window."""
    found = tuple(_setting(node, name, rank, 1) for name in ("window", "strides", "base_dilations", "dilations"))
    if any(v < 1 for part in found for v in part):
        fail(node, f"window, strides and dilations must be positive, found {found}")
    return found


def _infer_window(node: Node, types: Types) -> list[TensorType]:
    x = types[0]
    check.one_of(node, "reduction", attr(node, "reduction"), REDUCTIONS)
    check.kind(node, x, "b" if attr(node, "reduction") in ("and", "or") else "biuf")
    check.one(node, types[1], "the initial value", "biuf")
    check.one_dtype(node, types)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    rank = len(x.shape)
    window, strides, base, dilations = _window(node, rank)
    pads = _setting(node, "pads", rank, (0, 0))
    shape: list[int | None] = []
    for d, k, s, b, w, (low, high) in zip(x.shape, window, strides, base, dilations, pads, strict=True):
        total = _spread(d, low, high, b - 1)
        shape.append(None if total is None else max((total - (k - 1) * w - 1) // s + 1, 0))
    return [TensorType(x.dtype, tuple(shape))]


def _reduce_window(node: Node, inputs: list[Any]) -> list[Any]:
    """Each window's elements and the initial value, reduced; pads count as the initial value."""
    x, first = inputs[0], inputs[1].reshape(-1)[0]
    window, strides, base, dilations = _window(node, x.ndim)
    pads = [(a, b, i - 1) for (a, b), i in zip(_setting(node, "pads", x.ndim, (0, 0)), base, strict=True)]
    wide = padded(x, first, pads)
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    reduce = REDUCTIONS[attr(node, "reduction")]
    shape = [max((n - r) // s + 1, 0) for n, r, s in zip(wide.shape, reach, strides, strict=True)]
    if 0 in shape:
        return [np.zeros(shape, x.dtype)]
    views = np.lib.stride_tricks.sliding_window_view(wide, reach)
    views = views[tuple(slice(None, None, s) for s in strides) + tuple(slice(None, None, d) for d in dilations)]
    y = reduce.reduce(views, axis=tuple(range(x.ndim, 2 * x.ndim)), dtype=None if views.dtype == bool else x.dtype)
    return [reduce(y, first).astype(x.dtype)]


define("interior_pad", _infer_pad, _pad, inputs=(2, 2), attrs={"low": REQUIRED, "high": REQUIRED, "interior": REQUIRED})
define(
    "reduce_window", _infer_window, _reduce_window, inputs=(2, 2),
    attrs={
        "reduction": REQUIRED, "window": REQUIRED, "strides": (), "base_dilations": (), "dilations": (), "pads": (),
    },
    work=squares,
)  # fmt: skip
