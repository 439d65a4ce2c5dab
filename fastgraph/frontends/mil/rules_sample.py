"""Images sampled at places: boxes, coordinates, affine transforms. Semantics: .../ops/defs/*/image_resizing.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.common import ints
from .call import Call, rule
from .rules_resize import SAMPLING

BOXES = ("corners_height_first", "corners_width_first", "center_size_height_first", "center_size_width_first")
UNITS = ("unnormalized", "normalized_minus_one_to_one", "normalized_zero_to_one")


@rule("crop_resize")
def _crop_resize(c: Call) -> None:
    """Up to iOS16 boxes are [N, 1, 4 or 5, 1, 1]: of all images, or with the number of one before; results
    [N, images, C, h, w]. From iOS17 on they are [N, 4], with numbers of images beside them; results [N, C, h, w]."""
    x = c.x()
    if c.rank(x) != 4:
        c.fail(f"expected an image of rank 4, found {x.type}")
    attrs: dict[str, Any] = {
        "size": (int(c.known("target_height", 1)), int(c.known("target_width", 1))),
        "normalized": int(c.known("normalized_coordinates", False)),
        "scale": float(c.known("spatial_scale", 1.0)),
        "boxes": c.text("box_coordinate_mode", *BOXES, default=BOXES[0]),
        "sampling": c.text("sampling_mode", *SAMPLING, default="DEFAULT"),
        "pad_value": float(c.known("pad_value", 0.0)),
    }
    if c.version >= 7:
        boxes, images = c.x("boxes"), c.value("box_indices")
        c.finish("crop_resize", [x, c.cast(boxes, np.float32), None if images is None else c.int64(images)], **attrs)
        return
    roi = c.x("roi")
    if c.rank(roi) != 5 or roi.type.shape is None or roi.type.shape[2] not in (4, 5):
        c.fail(f"expected 'roi' as [N, 1, 4 or 5, 1, 1], found {roi.type}")
    width = roi.type.shape[2]
    rows = c.add("reshape", [roi, ints(c, [-1, width])])
    if width == 4:
        c.finish("crop_resize", [x, rows, None], every=1, **attrs)
        return
    images, boxes = c.fresh(), c.fresh()
    c.add("split", [rows, ints(c, [1, 4])], [images, boxes], axis=1)
    found = c.add("crop_resize", [x, boxes, c.int64(c.add("reshape", [images, ints(c, [-1])]))], **attrs)
    c.give(c.add("unsqueeze", [found, ints(c, [1])]))


@rule("resample")
def _resample(c: Call) -> None:
    if c.rank(c.x()) != 4 or c.rank(c.x("coordinates")) != 4:
        c.fail(f"expected an image and coordinates of rank 4, found {c.x().type} and {c.x('coordinates').type}")
    c.finish(
        "resample", [c.x(), c.cast(c.x("coordinates"), np.float32)],
        mode={"bilinear": "linear"}.get(mode := c.text("sampling_mode", "bilinear", "nearest"), mode),
        padding=c.text("padding_mode", "constant", "border", "reflection", "symmetric"),
        pad_value=float(c.known("padding_value", 0.0)), units=c.text("coordinates_mode", *UNITS),
        corners=int(c.known("align_corners", False)),
    )  # fmt: skip


@rule("affine")
def _affine(c: Call) -> None:
    """The image at the transformed places of an output of that size; zeros outside of it."""
    x, size = c.x(), [int(c.known("output_height")), int(c.known("output_width"))]
    if c.rank(x) != 4 or min(size) < 1:
        c.fail(f"expected an image of rank 4 and an output of 1 x 1 or more, found {x.type} and {size}")
    c.text("sampling_mode", "bilinear")
    c.text("padding_mode", "constant")
    c.text("coordinates_mode", "normalized_minus_one_to_one")
    if c.known("padding_value", 0.0) or not c.known("align_corners", True):
        c.unsupported("with padding other than zeros, or without align_corners")
    batch = c.add("shape", [x], start=0, end=1)
    theta = c.add("reshape", [c.cast(c.x("transform_matrix"), np.float32), ints(c, [-1, 2, 3])])
    theta = c.add("expand", [theta, c.add("concat", [batch, ints(c, [2, 3])], axis=0)])
    shape = c.add("concat", [batch, ints(c, [1, *size])], axis=0)
    grid = c.add("affine_grid", [theta, shape], align_corners=1)
    c.finish("grid_sample", [x, grid], mode="linear", padding_mode="zeros", align_corners=1)
