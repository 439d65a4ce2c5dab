"""Images sampled at places: boxes, coordinates, affine transforms. Semantics: .../ops/defs/*/image_resizing.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Value
from .call import Call
from .signatures import Float32, Rank4, rule

MODES = {
    "sampling_mode": "bilinear",
    "padding_mode": "constant",
    "coordinates_mode": "normalized_minus_one_to_one",
}
"""How `affine` samples images."""


@rule("crop_resize")
def crop_resize(c: Call, x: Value, height: int, width: int, **attrs: Any) -> Value:
    """Up to iOS16 boxes are [N, 1, 4 or 5, 1, 1]: of all images, or with the number of one before; results
    [N, images, C, h, w]. From iOS17 on they are [N, 4], with numbers of images beside them; results [N, C, h, w]."""
    attrs["size"] = height, width
    if c.version >= 7:
        images = c.value("box_indices")
        boxes = c.cast(c.x("boxes"), np.float32)
        return c("crop_resize", x, boxes, None if images is None else c.int64(images), **attrs)
    roi = c.x("roi")
    if c.rank(roi) != 5 or roi.type.shape is None or roi.type.shape[2] not in (4, 5):
        c.fail(f"expected 'roi' as [N, 1, 4 or 5, 1, 1], found {roi.type}")
    rows = c("reshape", roi, c.vector(-1, roi.type.shape[2]))
    if roi.type.shape[2] == 4:
        return c("crop_resize", x, rows, None, every=1, **attrs)
    images, boxes = c.several("split", 2, rows, c.vector(1, 4), axis=1)
    images = c.int64(c("reshape", images, c.vector(-1)))
    return c("unsqueeze", c("crop_resize", x, boxes, images, **attrs), c.vector(1))


@rule("affine")
def affine(c: Call, x: Rank4, transform_matrix: Float32, output_height: int, output_width: int) -> Value:
    """The image at the transformed places of an output of that size; zeros outside of it."""
    if min(output_height, output_width) < 1:
        c.fail(f"expected an output of 1 x 1 or more, found {output_height} x {output_width}")
    for key, mode in MODES.items():
        c.text(key, mode)
    if c.known("padding_value", 0.0) or not c.known("align_corners", True):
        c.unsupported("with padding other than zeros, or without align_corners")
    batch = c("shape", x, start=0, end=1)
    theta = c("reshape", transform_matrix, c.vector(-1, 2, 3))
    theta = c("expand", theta, c.join([batch, c.vector(2, 3)], 0))
    grid = c("affine_grid", theta, c.join([batch, c.vector(1, output_height, output_width)], 0), align_corners=1)
    return c("grid_sample", x, grid, mode="linear", padding_mode="zeros", align_corners=1)
