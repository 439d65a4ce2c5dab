"""Gather and scatter of slices at computed offsets. Semantics: StableHLO's gather and scatter;
tflite/kernels/{stablehlo_gather, stablehlo_scatter}.cc."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Node, TensorType
from . import check
from .inference import Types
from .registry import REQUIRED, attr, define, fail

REDUCTIONS: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


DIMENSIONS = {"offset_dims": REQUIRED, "collapsed_dims": (), "start_map": REQUIRED, "index_vector_dim": REQUIRED}
"""offset_dims: axes of the result (of the updates) that come from a slice; collapsed_dims: axes of x that slices drop;
start_map: the axis of x that each component of an offset counts along; index_vector_dim: the axis of `places` that
holds these components (the rank of `places`: each offset has one component)."""


def _batch_axes(offset: tuple[int, ...], rank: int) -> list[int]:
    return [i for i in range(rank) if i not in offset]


def _checked(node: Node, rank: int, places: TensorType) -> None:
    for name in ("collapsed_dims", "start_map", "offset_dims"):
        dims = list(attr(node, name))
        if len(set(dims)) != len(dims) or (name != "offset_dims" and any(not 0 <= d < rank for d in dims)):
            fail(node, f"{name} {dims} must be distinct axes of a tensor of rank {rank}")
    vector, found = attr(node, "index_vector_dim"), places.shape
    if found is not None:
        if not 0 <= vector <= len(found):
            fail(node, f"index_vector_dim {vector} does not exist in places {list(found)}")
        parts = 1 if vector == len(found) else found[vector]
        if isinstance(parts, int) and parts != len(attr(node, "start_map")):
            fail(node, f"places have {parts} components, the map {len(attr(node, 'start_map'))}")
    if len(attr(node, "offset_dims")) + len(attr(node, "collapsed_dims")) != rank:
        fail(node, f"offset and collapsed dimensions must be {rank} together")


@check.takes("x, places iu")
def _infer_gather(node: Node, types: Types) -> list[TensorType]:
    x, places = types
    if x.shape is None or places.shape is None:
        return [TensorType(x.dtype, None)]
    _checked(node, len(x.shape), places)
    sizes, collapsed = tuple(attr(node, "slice_sizes")), attr(node, "collapsed_dims")
    if len(sizes) != len(x.shape):
        fail(node, f"slice_sizes must have {len(x.shape)} numbers, found {sizes}")
    if any(isinstance(d, int) and not 0 <= s <= d for s, d in zip(sizes, x.shape, strict=True)):
        fail(node, f"slices of {list(sizes)} do not fit into {list(x.shape)}")
    batch = [d for i, d in enumerate(places.shape) if i != attr(node, "index_vector_dim")]
    if any(sizes[i] > 1 for i in collapsed):
        fail(node, f"slices of {list(sizes)} can't lose axes {list(collapsed)}: they have more than one entry there")
    inner = [s for i, s in enumerate(sizes) if i not in collapsed]
    offset = attr(node, "offset_dims")
    if len(inner) != len(offset) or any(not 0 <= d < len(batch) + len(inner) for d in offset):
        fail(node, f"offset dimensions {tuple(offset)} do not fit slices of rank {len(inner)}")
    shape: list[Any] = [None] * (len(batch) + len(inner))
    for axis, d in zip(_batch_axes(offset, len(shape)), batch, strict=True):
        shape[axis] = d
    for axis, d in zip(offset, inner, strict=True):
        shape[axis] = d
    return [TensorType(x.dtype, tuple(shape))]


def _starts(node: Node, places: np.ndarray, rank: int) -> np.ndarray:
    """[..., rank]: the offset of each slice in x."""
    vector = attr(node, "index_vector_dim")
    last = places[..., None] if vector == places.ndim else np.moveaxis(places, vector, -1)
    starts = np.zeros((*last.shape[:-1], rank), np.int64)
    for i, axis in enumerate(attr(node, "start_map")):
        starts[..., axis] = last[..., i]
    return starts


def _gather(node: Node, inputs: list[Any]) -> list[Any]:
    """Slices of x; offsets at which a slice would exceed x are clamped, or (`checked`) an IndexError."""
    x, places = inputs
    sizes, offset = tuple(attr(node, "slice_sizes")), attr(node, "offset_dims")
    asked = _starts(node, places, x.ndim)
    starts = np.clip(asked, 0, np.array(x.shape) - sizes)
    if attr(node, "checked") and np.any(starts != asked):
        raise IndexError(f"a slice of {list(sizes)} at {asked[starts != asked].flat[0]} is outside {list(x.shape)}")
    batch = starts.shape[:-1]
    steps = np.ogrid[tuple(slice(n) for n in sizes)]
    out = x[tuple(starts[..., d].reshape(*batch, *(1,) * x.ndim) + step for d, step in enumerate(steps))]
    out = out.squeeze(tuple(len(batch) + d for d in attr(node, "collapsed_dims")))
    order = [*_batch_axes(offset, out.ndim), *offset]
    return [np.ascontiguousarray(out.transpose(np.argsort(order)))]


def _scatter(node: Node, inputs: list[Any]) -> list[Any]:
    """x with slices of `updates` written over it, or reduced into it; slices that would exceed x are left out."""
    x, places, updates = inputs
    starts, offset = _starts(node, places, x.ndim), tuple(attr(node, "offset_dims"))
    batch = starts.shape[:-1]
    slices = updates.transpose([*_batch_axes(offset, updates.ndim), *offset])
    kept = [d for d in range(x.ndim) if d not in attr(node, "collapsed_dims")]
    sizes = np.ones(x.ndim, np.int64)
    sizes[kept] = slices.shape[len(batch) :]
    y = x.copy()
    reduce = REDUCTIONS.get(attr(node, "reduction"))
    for at in np.ndindex(*batch):
        start = starts[at]
        if (start < 0).any() or (start + sizes > x.shape).any():
            continue
        where = tuple(slice(s, s + n) for s, n in zip(start.tolist(), sizes.tolist(), strict=True))
        new = slices[at].reshape(sizes)
        y[where] = new if reduce is None else reduce(y[where], new)
    return [y]


@check.takes("x, places iu, updates")
def _infer_scatter(node: Node, types: Types) -> list[TensorType]:
    x, places, updates = types
    check.one_of(node, "reduction", attr(node, "reduction"), ("none", *REDUCTIONS))
    check.one_dtype(node, [x, updates])
    if x.shape is None or places.shape is None or updates.shape is None:
        return [TensorType(x.dtype, x.shape)]
    _checked(node, len(x.shape), places)
    offset = attr(node, "offset_dims")
    batch = [d for i, d in enumerate(places.shape) if i != attr(node, "index_vector_dim")]
    if len(updates.shape) != len(batch) + len(offset) or any(not 0 <= d < len(updates.shape) for d in offset):
        fail(node, f"updates {list(updates.shape)} do not fit places {list(places.shape)} and offsets {tuple(offset)}")
    lead = [updates.shape[i] for i in _batch_axes(offset, len(updates.shape))]
    check.shape(node, TensorType(None, tuple(lead)), "the batch of updates", *batch)
    return [TensorType(x.dtype, x.shape)]


define("gather_slices", _infer_gather, _gather, moves=True, attrs={**DIMENSIONS, "slice_sizes": REQUIRED, "checked": 0})
define("scatter_slices", _infer_scatter, _scatter, attrs={**DIMENSIONS, "reduction": "none"}, updates=True)
