"""Pools and resizes of images, channels last. Semantics: TFLite's kernels."""

from __future__ import annotations

from typing import Any

from ...ir import Value
from .call import Call


def average_pool(c: Call, x: Value, **window: Any) -> None:
    """Means over what lies inside the image; of integers halves are rounded away from the stored number 0."""
    quant = x.type.quant
    if c.activation == "NONE" and quant is None:
        c.results_are, window["ties"] = ["rounded"], 0.0
    elif quant is not None and quant.axis is None and quant == c.outputs[0].type.quant:
        window["ties"] = -quant.scale[0] * quant.zero_point[0]
    c.write("average_pool", [x], **window, count_include_pad=0)


def l2_pool(c: Call, x: Value, **window: Any) -> Value:
    """The root of the mean of squares over what lies inside the image."""
    return c.sqrt(c("average_pool", x * x, **window, count_include_pad=0))


def resize(c: Call, x: Value, size: Value, mode: str, corners: bool, centers: bool) -> None:
    """Coordinates are computed in float32 by the multiplier in / out, so that ties fall as they do in TFLite."""
    if corners and centers:
        c.fail("expected at most one of align_corners and half_pixel_centers")
    form = "tf_align_corners" if corners else "tf_half_pixel" if centers else "tf_asymmetric"
    c.write(
        "resize", [x, None, None, size], axes=(1, 2), mode=mode, coordinate_transformation_mode=form,
        nearest_mode="floor" if form == "tf_asymmetric" else "round_prefer_ceil",
    )  # fmt: skip
