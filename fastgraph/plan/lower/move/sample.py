"""Sampling images at coordinates: grid_sample, resample, sample_boxes, region_means."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from ....ir import FLOAT32, Node, Value
from ....kernels.move.rows import (
    BORDER,
    CUBIC,
    LINEAR,
    MOST_POOLED,
    NEAREST,
    PADDED,
    POINT,
    REFLECTED,
    REGION,
    SAMPLED,
    ZEROS,
)
from ....ops.registry import attr
from ...program import ERROR
from ..registry import Emit, Slot, lowers

LAST = ("grid_sample", "region_means")
"""Operators whose results have their channels last."""
MODES = {"nearest": NEAREST, "linear": LINEAR, "cubic": CUBIC}


class Axis(NamedTuple):
    """The byte offset of an axis' coordinates g and their conversion to pixels, ((g + before) * scale + after) *
    factor; `low` and `high`: the interval into which they are reflected."""

    at: int
    row: int
    column: int
    before: float = 0.0
    scale: float = 1.0
    after: float = 0.0
    factor: float = 1.0
    low: float = 0.0
    high: float = 0.0


def _f64(x: float) -> int:
    return int(np.float64(x).view(np.int64))


def _f32(x: float) -> int:
    return int(np.float32(x).view(np.int32))


def _spatial(node: Node) -> tuple[int, ...]:
    """The extents of the images' sampled axes."""
    dims = node.x.type.dims
    return dims[1:-1] if _images_last(node) else dims[2:]


def _images_last(node: Node) -> bool:
    """Whether images have their channels last."""
    return node.op in LAST and not node.attrs.get("channels_first")


def _samples(node: Node) -> bool:
    """Whether images are f32 with up to three axes, coordinates floats, and neither is empty."""
    x, where = node.x.type, node.y
    if not x.concrete or not where.type.concrete or not node.out.type.concrete or not node.out.type.size or not x.size:
        return False
    return x.dtype == node.out.type.dtype == FLOAT32 and 0 < len(x.dims) - 2 <= SAMPLED


def _sample(e: Emit, node: Node, grid: dict[str, Any], axes: list[Axis], mode: str, outside: int, **more: Any) -> None:
    x, out = node.x.type.dims, node.out.type.dims
    from_last, last = _images_last(node), node.op in LAST
    images, channels, spatial = x[0], x[-1 if from_last else 1], _spatial(node)
    points, pixels = prod(out[1:-1] if last else out[-len(spatial) :]), prod(spatial)
    pixel, point = (4 * channels if together else 4 for together in (from_last, last))
    fields: dict[str, Any] = {"images": np.arange(images), "items": images, "share": 1}
    fields |= {"rows": 1, "columns": points, "pool": 1, "fold": 0, "pad": 0, **more}
    fields |= {"src_image": 4 * channels * pixels, "src_channel": 4 if from_last else 4 * pixels}
    fields |= {"dst_item": 4 * channels * points, "dst_channel": 4 if last else 4 * points, "dst_point": point}
    every = [*axes, *[Axis(0, 0, 0)] * (SAMPLED - len(axes))]
    for k, axis in enumerate(every):
        size = spatial[k] if k < len(spatial) else 0
        values = axis._asdict() | {"size": size, "stride": pixel * prod(spatial[k + 1 :])}
        fields |= {f"{name}{k}": _f64(v) if isinstance(v, float) else v for name, v in values.items() if name in POINT}
    how = {"mode": MODES[mode], "outside": outside, "axes": len(spatial), "channels": channels}
    ends: dict[str, Slot] = {"dst": node.out, "src": node.x, "image_count": images, "error": ERROR}
    e.kernel("sample", {}, {**ends, **grid, **how, **fields})


def _read(where: Value) -> dict[str, Any]:
    """The slots of a dense grid [images, points ..., axes]."""
    size = where.type.itemsize
    return {"grid": where, "grid_size": size, "grid_item": size * prod(where.type.dims[1:])}


def _at_grid(node: Node) -> bool:
    where = node.y
    floats = where.type.dtype in (np.float32, np.float64)
    return _samples(node) and floats


def _pixels(node: Node, units: str, corners: bool, edge: float) -> list[Axis]:
    """The axes of a grid whose coordinates are the innermost axis, the last one's first."""
    where, spatial = node.y, _spatial(node)
    item, rank, axes = where.type.itemsize, len(spatial), []
    for k, n in enumerate(spatial):
        place = Axis(item * (rank - 1 - k), 0, item * rank, low=-edge, high=n - 1 + edge)
        if units == "normalized_minus_one_to_one":
            place = place._replace(before=1.0, scale=float(n - corners), after=0.0 if corners else -1.0, factor=0.5)
        elif units != "unnormalized":
            place = place._replace(scale=float(n - corners), after=0.0 if corners else -0.5)
        axes.append(place)
    return axes


@lowers("grid_sample", match=_at_grid)
def grid_sample(e: Emit, node: Node, _: Any) -> None:
    where, corners = node.y, bool(attr(node, "align_corners"))
    axes = _pixels(node, "normalized_minus_one_to_one", corners, 0.0 if corners else 0.5)
    outside = {"zeros": ZEROS, "border": BORDER, "reflection": REFLECTED}[attr(node, "padding_mode")]
    _sample(e, node, _read(where), axes, attr(node, "mode"), outside)


@lowers("resample", match=_at_grid)
def resample(e: Emit, node: Node, _: Any) -> None:
    """Coordinates outside are reflected before the image is sampled."""
    where, padding = node.y, attr(node, "padding")
    axes = _pixels(node, attr(node, "units"), bool(attr(node, "corners")), 0.5 * (padding == "symmetric"))
    fold, pad = int(padding in ("reflection", "symmetric")), _f32(attr(node, "pad_value"))
    outside = ZEROS if padding == "constant" else BORDER
    _sample(e, node, _read(where), axes, attr(node, "mode"), outside, fold=fold, pad=pad)


def _at_places(node: Node) -> bool:
    places, images = node.operands[1:3]
    floats = places.type.dtype in (np.float32, np.float64)
    return _samples(node) and floats and images.type.concrete and images.type.dtype == np.int64


@lowers("sample_boxes", match=_at_places)
def sample_boxes(e: Emit, node: Node, _: Any) -> None:
    """Rows and columns of each box, which are made at run time."""
    (places, images), (height, width) = node.operands[1:3], attr(node, "size")
    count, share, size = places.type.dims[0], node.x.type.dims[0], places.type.itemsize
    more: dict[str, Any] = {"images": images, "items": count, "share": 1}
    if attr(node, "every"):
        more = {"images": np.tile(np.arange(share), count), "items": count * share, "share": share}
    axes = [Axis(0, size, 0), Axis(size * height, 0, size)]
    outside = PADDED if attr(node, "outside") == "padded" else BORDER
    more |= {"rows": height, "columns": width, "pad": _f32(attr(node, "pad_value"))}
    _sample(e, node, _read(places), axes, attr(node, "mode"), outside, **more)


def _at_regions(node: Node) -> bool:
    return _at_places(node) and attr(node, "ratio") <= MOST_POOLED


@lowers("region_means", match=_at_regions)
def region_means(e: Emit, node: Node, _: Any) -> None:
    """As `sample_boxes`, with several rows and columns for each of the result."""
    (places, images), (height, width), ratio = node.operands[1:3], attr(node, "size"), attr(node, "ratio")
    size = places.type.itemsize
    axes = [Axis(0, size, 0), Axis(size * height * ratio, 0, size)]
    more = {"images": images, "items": places.type.dims[0], "rows": height, "columns": width, "pool": ratio}
    _sample(e, node, _read(places), axes, "linear", REGION, **more)
