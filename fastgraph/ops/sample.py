"""Sampling at coordinates: grid_sample has channels last (with `channels_first` only its results), as region_means has,
all others first.

Semantics: ONNX (grid_sample), Core ML's MIL (resample).
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..ir import Node, TensorType
from ..kernels.move.resize_tables import cubic_weight
from . import check
from .inference import Types, shown
from .registry import REQUIRED, attr, define, fail
from .resize import converted
from .work import squares

CUBIC = -0.75


FAR = 2.0**52
"""A coordinate in pixels further out counts as this far."""


def reflected(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Coordinates folded back into [low, high] as often as it takes."""
    span = high - low
    if span <= 0:
        return np.full_like(x, low)
    t = np.mod(x - low, 2 * span)
    return low + np.where(t > span, 2 * span - t, t)


def sampled(x: np.ndarray, where: np.ndarray, mode: str, outside: str, corners: bool = True) -> np.ndarray:
    """x [N, C, spatial...] at pixel coordinates `where` [N, P, spatial rank]: [N, C, P].

    mode: nearest, linear or cubic; outside: zeros, border or reflection (at the centers of the corner pixels,
    or at their outer edges).
    """
    n, _, *spatial = x.shape
    taps = [_taps(where[..., i], size, mode, outside, corners) for i, size in enumerate(spatial)]
    y: Any = 0
    batch = np.arange(n)[:, None]
    for choice in itertools.product(*(range(len(t)) for t in taps)):
        index, weight = zip(*(t[c] for t, c in zip(taps, choice, strict=True)), strict=True)
        picked = x[(batch, slice(None), *index)]
        y = y + picked * np.prod(np.broadcast_arrays(*weight), axis=0)[..., None]
    return np.moveaxis(np.asarray(y), 2, 1)


def _taps(where: np.ndarray, size: int, mode: str, outside: str, corners: bool) -> list[tuple[Any, Any]]:
    """(indices, weights) of each neighbor along one axis; coordinates are clamped to FAR, so that weights sum to 1."""
    where = where.clip(-FAR, FAR)
    if mode == "nearest":
        places, weights = [np.rint(where)], [np.ones_like(where)]
    else:
        near = np.floor(where)
        reach = range(-1, 3) if mode == "cubic" else range(2)
        places = [near + i for i in reach]
        away = [p - where for p in places]
        weights = [1 - np.abs(d) if mode == "linear" else cubic_weight(d, CUBIC) + 0 * d for d in away]
    found = []
    for place, weight in zip(places, weights, strict=True):
        if outside == "zeros":
            weight = np.where((place < 0) | (place > size - 1), 0, weight)
        elif outside == "reflection":
            place = reflected(place, 0 if corners else -0.5, size - 1 if corners else size - 0.5)
        found.append((np.clip(np.nan_to_num(place), 0, size - 1).astype(np.int64), weight))
    return found


@check.takes("x biuf 3+, grid f")
def _infer_grid_sample(node: Node, types: Types) -> list[TensorType]:
    x, grid = types
    check.one_of(node, "mode", attr(node, "mode"), ("nearest", "linear", "cubic"))
    check.one_of(node, "padding_mode", attr(node, "padding_mode"), ("zeros", "border", "reflection"))
    if x.shape is None or grid.shape is None:
        return [TensorType(x.dtype, None)]
    if len(grid.shape) != len(x.shape):
        fail(node, f"grid {shown(grid.shape)} must have the rank of the input {shown(x.shape)}")
    check.shape(node, grid, "grid", x.shape[0], *grid.shape[1:-1], len(x.shape) - 2)
    *spatial, channels = [*x.shape[2:], x.shape[1]] if attr(node, "channels_first") else x.shape[1:]
    if 0 in spatial and 0 not in grid.shape:
        fail(node, f"there is nothing to sample in {shown(x.shape)}")
    return [TensorType(x.dtype, (x.shape[0], *grid.shape[1:-1], channels))]


def _grid_sample(node: Node, inputs: list[Any]) -> list[Any]:
    x, grid = inputs
    x = x if attr(node, "channels_first") else np.moveaxis(x, -1, 1)
    sizes = np.array(x.shape[2:], np.float64)
    unit = grid.reshape(grid.shape[0], -1, grid.shape[-1])[..., ::-1].astype(np.float64)
    corners = bool(attr(node, "align_corners"))
    where = (unit + 1) / 2 * (sizes - 1) if corners else ((unit + 1) * sizes - 1) / 2
    y = sampled(x, where, attr(node, "mode"), attr(node, "padding_mode"), corners)
    return [converted(np.moveaxis(y, 1, -1).reshape(*grid.shape[:-1], x.shape[1]), x.dtype)]


@check.takes("image 4, places f 2, image_numbers")
def _infer_boxes(node: Node, types: Types) -> list[TensorType]:
    x, places, images = types
    height, width = attr(node, "size")
    check.shape(node, places, "places", None, height + width)
    count = places.shape[0] if places.shape else None
    lead = (count, *((x.shape or (None,))[:1] if attr(node, "every") else ()))
    return [TensorType(x.dtype, (*lead, x.shape[1] if x.shape else None, height, width))]


def _boxes(node: Node, inputs: list[Any]) -> list[Any]:
    """x [B, C, H, W] at each pair of a row and a column in `places` [N, h + w] (in pixels), from the images that input
    2 selects: [N, C, h, w]; with `every`, from each image: [N, B, C, h, w]. Coordinates outside read the border, or
    give `pad_value`."""
    x, places, images = inputs
    height, width = attr(node, "size")
    found = []
    for n, place in enumerate(places.astype(np.float64)):
        grid = np.stack(np.meshgrid(place[:height], place[height:], indexing="ij"), -1).reshape(1, -1, 2)
        source = x if attr(node, "every") else x[int(images[n])][None]
        y = sampled(source, np.repeat(grid, len(source), 0), attr(node, "mode"), "border")
        if attr(node, "outside") == "padded":
            inside = np.asarray(((grid >= 0) & (grid <= [x.shape[2] - 1, x.shape[3] - 1])).all(-1))
            y = np.where(inside[:, None], y, attr(node, "pad_value"))
        found.append(y.reshape(*y.shape[:2], height, width))
    whole = np.stack(found)
    return [(whole if attr(node, "every") else whole[:, 0]).astype(x.dtype)]


@check.takes("image f 4, places f 2, image_numbers")
def _infer_means(node: Node, types: Types) -> list[TensorType]:
    x, places, _ = types
    height, width = attr(node, "size")
    check.shape(node, places, "places", None, (height + width) * attr(node, "ratio"))
    count = places.shape[0] if places.shape else None
    return [TensorType(x.dtype, (count, height, width, x.shape[3] if x.shape else None))]


def _means(node: Node, inputs: list[Any]) -> list[Any]:
    """x [B, H, W, C] at each pair of a row and a column in `places` [N, (h + w) * ratio] (in pixels), from the images
    that input 2 selects, and the means of `ratio` by `ratio` samples: [N, h, w, C]. More than a pixel outside they are
    0, nearer the border.
    """
    x, places, images = inputs
    (height, width), ratio = attr(node, "size"), attr(node, "ratio")
    y = np.zeros((len(places), height, width, x.shape[3]), x.dtype)
    for n, place in enumerate(places.astype(np.float64)):
        grid = np.stack(np.meshgrid(place[: height * ratio], place[height * ratio :], indexing="ij"), -1).reshape(-1, 2)
        found = sampled(np.moveaxis(x[int(images[n])], 2, 0)[None], grid[None], "linear", "border")[0]
        found = np.where(((grid >= -1) & (grid <= x.shape[1:3])).all(-1), found, 0)
        y[n] = found.reshape(-1, height, ratio, width, ratio).mean((2, 4)).transpose(1, 2, 0)
    return [y]


@check.takes("image iuf 4, coordinates iuf 4")
def _infer_resample(node: Node, types: Types) -> list[TensorType]:
    x, where = types
    lead = x.shape[:2] if x.shape else (None, None)
    if where.shape is not None:
        check.shape(node, where, "coordinates", lead[0], *where.shape[1:3], 2)
    if x.shape is not None and 0 in x.shape[2:]:
        fail(node, f"there is nothing to sample in an image {list(x.shape)}")
    return [TensorType(x.dtype, (*lead, *(where.shape[1:3] if where.shape else (None, None))))]


def _resample(node: Node, inputs: list[Any]) -> list[Any]:
    """x [B, C, H, W] at coordinates [B, h, w, (x, y)]: [B, C, h, w]. `corners`: -1 and 1 (0 and 1) are the centers of
    the outermost pixels, else their edges. `padding`: the mode for coordinates outside."""
    x, where = inputs
    sizes, units = np.array(x.shape[2:], np.float64), attr(node, "units")
    places = where.reshape(len(where), -1, 2)[..., ::-1].astype(np.float64)
    if units != "unnormalized":
        unit = (places + 1) / 2 if units == "normalized_minus_one_to_one" else places
        places = unit * (sizes - 1) if attr(node, "corners") else unit * sizes - 0.5
    padding, mode = attr(node, "padding"), attr(node, "mode")
    if padding in ("reflection", "symmetric"):
        edge = 0.5 * (padding == "symmetric")
        folded = [reflected(places[..., i], -edge, n - 1 + edge) for i, n in enumerate(sizes)]
        places = np.stack(folded, -1)
    outside = "zeros" if padding == "constant" else "border"
    y = sampled(x, places, mode, outside)
    if padding == "constant" and attr(node, "pad_value"):
        share = sampled(np.ones((len(x), 1, *x.shape[2:])), places, mode, outside)
        y = y + (1 - share) * attr(node, "pad_value")
    return [y.reshape(*x.shape[:2], *where.shape[1:3]).astype(x.dtype)]


define(
    "grid_sample",
    _infer_grid_sample,
    _grid_sample,
    attrs={"align_corners": 0, "mode": "linear", "padding_mode": "zeros", "channels_first": 0},
)
define(
    "sample_boxes",
    _infer_boxes,
    _boxes,
    attrs={"size": REQUIRED, "mode": "linear", "outside": "border", "pad_value": 0.0, "every": 0},
    work=squares,
)
define("region_means", _infer_means, _means, attrs={"size": REQUIRED, "ratio": 1}, work=squares)
define(
    "resample",
    _infer_resample,
    _resample,
    attrs={"mode": "linear", "padding": "constant", "pad_value": 0.0, "units": "unnormalized", "corners": 0},
    work=squares,
)
