"""Images sampled in boxes and at coordinates, channels first. Semantics: Core ML's MIL, crop_resize and resample."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import Dim, Node, TensorType
from .common import FLOAT, NUMBER, Types, fail, fits, inside, need_kind, need_rank, need_vector
from .registry import REQUIRED, attr, define
from .sample import reflected, sampled
from .work import squares


def _infer_crop(node: Node, types: Types) -> list[TensorType]:
    x, boxes, which = types
    need_rank(node, x, 4, 4, "the image")
    need_rank(node, boxes, 2, 2, "boxes")
    images, channels = x.shape[:2] if x.shape else (None, None)
    count: Dim = boxes.shape[0] if boxes.shape else None
    need_kind(node, x, NUMBER, "the image")
    need_kind(node, boxes, NUMBER, "boxes")
    fits(node, boxes, "boxes", count, 4)
    need_vector(node, which, "the images' numbers")
    fits(node, which, "the images' numbers", count)
    inside(node, "the images' numbers", node.const(2), 0, images)
    if len(attr(node, "size")) != 2 or min(attr(node, "size")) < 1:
        fail(node, f"size must be two positive numbers, found {attr(node, 'size')}")
    if which is None and not attr(node, "every") and isinstance(count, int) and isinstance(images, int):
        inside(node, "the images' numbers", np.arange(count)[-1:], 0, images)
    if x.shape is not None and 0 in x.shape[2:]:
        fail(node, f"there is nothing to crop in an image {list(x.shape)}")
    lead = (count, images) if attr(node, "every") else (count,)
    return [TensorType(x.dtype, (*lead, channels, *attr(node, "size")))]


def _grid(low: np.ndarray, high: np.ndarray, count: int, sampling: str) -> np.ndarray:
    """[N, count]: places from low to high, as resizing an axis of high - low + 1 elements takes them."""
    span, i = high - low, np.arange(count)
    if sampling == "offset_corners":
        # Boxes of RoI Align: at least one element wide.
        step = np.maximum(span, 1) / count
        return low[:, None] + (i + 0.5) * step[:, None]
    if sampling in ("default", "unalign_corners"):
        shift = 0.5 if sampling == "unalign_corners" else 0.0
        places = (i + shift) * (span[:, None] + 1) / count - shift
        places = np.clip(places, np.minimum(span, 0)[:, None], np.maximum(span, 0)[:, None])
    elif count > 1:
        places = i * (span[:, None] / (count - 1))
    else:
        places = (span / 2 if sampling == "align_corners" else np.zeros_like(span))[:, None]
    return low[:, None] + places


def _bounds(node: Node, boxes: np.ndarray, height: int, width: int) -> list[np.ndarray]:
    """First and last row, first and last column, in pixels."""
    a, b, c, d = boxes.astype(np.float64).T * attr(node, "scale")
    if attr(node, "boxes").endswith("width_first"):
        a, b, c, d = b, a, d, c
    if attr(node, "boxes").startswith("center"):
        a, b, c, d = a - c / 2, b - d / 2, a + c / 2, b + d / 2
    rows, columns = (height - 1, width - 1) if attr(node, "normalized") else (1, 1)
    return [a * rows, c * rows, b * columns, d * columns]


def boxes_places(node: Node, boxes: np.ndarray, height: int, width: int) -> list[np.ndarray]:
    """The rows and the columns that each box takes of images, in pixels: [N, h] and [N, w], f64."""
    top, bottom, left, right = _bounds(node, boxes, height, width)
    ends = (top, bottom), (left, right)
    return [_grid(*pair, n, attr(node, "sampling")) for pair, n in zip(ends, attr(node, "size"), strict=True)]


def _crop(node: Node, inputs: list[Any]) -> list[Any]:
    """x [B, C, H, W] in boxes [N, 4]: [N, C, h, w], of the images that the third input says (0, 1, ... without one);
    with `every`, of all: [N, B, C, h, w]. What lies outside the image is `pad_value`."""
    x, boxes, images = inputs
    images = np.arange(len(boxes)) if images is None and not attr(node, "every") else images
    height, width = x.shape[2:]
    rows, columns = boxes_places(node, boxes, height, width)
    found = []
    for n in range(len(boxes)):
        places = np.stack(np.meshgrid(rows[n], columns[n], indexing="ij"), -1).reshape(1, -1, 2)
        source = x if images is None else x[int(images[n])][None]
        y = sampled(source, np.repeat(places, len(source), 0), "linear", "border")
        inside = np.asarray(((places >= 0) & (places <= [height - 1, width - 1])).all(-1))
        y = np.where(inside[:, None], y, attr(node, "pad_value"))
        found.append(y.reshape(*y.shape[:2], *attr(node, "size")))
    whole = np.stack(found) if found else np.zeros((0, len(x), x.shape[1], *attr(node, "size")))
    return [(whole if attr(node, "every") else whole[:, 0]).astype(x.dtype)]


def _infer_boxes(node: Node, types: Types) -> list[TensorType]:
    x, places, images = types
    need_rank(node, x, 4, 4, "the image")
    need_rank(node, places, 2, 2, "places")
    need_kind(node, places, FLOAT, "places")
    height, width = attr(node, "size")
    fits(node, places, "places", None, height + width)
    count = places.shape[0] if places.shape else None
    lead = (count, *((x.shape or (None,))[:1] if attr(node, "every") else ()))
    return [TensorType(x.dtype, (*lead, x.shape[1] if x.shape else None, height, width))]


def _boxes(node: Node, inputs: list[Any]) -> list[Any]:
    """x [B, C, H, W] at all pairs of the rows and columns `places` [N, h + w] in pixels, of the images that the third
    input says: [N, C, h, w]; with `every`, of all: [N, B, C, h, w]. Outside lie the border's pixels, or `pad_value`."""
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


def _infer_resample(node: Node, types: Types) -> list[TensorType]:
    x, where = types
    need_rank(node, x, 4, 4, "the image")
    need_rank(node, where, 4, 4, "coordinates")
    need_kind(node, x, NUMBER, "the image")
    need_kind(node, where, NUMBER, "coordinates")
    lead = x.shape[:2] if x.shape else (None, None)
    if where.shape is not None:
        fits(node, where, "coordinates", lead[0], *where.shape[1:3], 2)
    if x.shape is not None and 0 in x.shape[2:]:
        fail(node, f"there is nothing to sample in an image {list(x.shape)}")
    return [TensorType(x.dtype, (*lead, *(where.shape[1:3] if where.shape else (None, None))))]


def _resample(node: Node, inputs: list[Any]) -> list[Any]:
    """x [B, C, H, W] at coordinates [B, h, w, (x, y)]: [B, C, h, w]. `corners`: -1 and 1 (0 and 1) are the middles of
    the outermost pixels, else their edges. `padding` says what goes on outside."""
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
    "crop_resize", _infer_crop, _crop, inputs=(2, 3),
    attrs={
        "size": REQUIRED, "normalized": 0, "scale": 1.0, "boxes": "corners_height_first", "sampling": "default",
        "pad_value": 0.0, "every": 0,
    },
    work=squares,
)  # fmt: skip
define(
    "sample_boxes", _infer_boxes, _boxes, inputs=(3, 3),
    attrs={"size": REQUIRED, "mode": "linear", "outside": "border", "pad_value": 0.0, "every": 0}, work=squares,
)  # fmt: skip
define(
    "resample", _infer_resample, _resample, inputs=(2, 2),
    attrs={"mode": "linear", "padding": "constant", "pad_value": 0.0, "units": "unnormalized", "corners": 0},
    work=squares,
)  # fmt: skip
