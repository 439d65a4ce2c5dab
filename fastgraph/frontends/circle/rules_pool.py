"""Pools and resizes of images, channels last. Semantics: TFLite's kernels."""

from __future__ import annotations

from typing import Any

from .call import Call, rule
from .common import computed, matched, real, rounded, same_dtype, vector

PADDINGS = {"SAME": "SAME_UPPER", "VALID": "VALID"}


def padding(c: Call) -> str:
    """The canonical auto_pad of the operator's padding: SAME puts an odd element after the data."""
    return PADDINGS[c.options.padding]


def _window(c: Call) -> dict[str, Any]:
    c.count(1)
    same_dtype(c, c.x(), c.outputs[0])
    o = c.options
    if c.op == "L2_POOL_2D" or o.fused_activation_function != "NONE":
        computed(c, c.x(), c.outputs[0])
    return {
        "kernel_shape": (o.filter_height, o.filter_width),
        "strides": (o.stride_h, o.stride_w),
        "auto_pad": padding(c),
    }


@rule("MAX_POOL_2D")
def _max_pool(c: Call) -> None:
    if c.options.fused_activation_function == "NONE":
        c.inputs = [matched(c, c.x(), c.outputs[0])]
    c.activate("max_pool", c.inputs, **_window(c))


@rule("AVERAGE_POOL_2D")
def _average_pool(c: Call) -> None:
    """Means over what lies inside the image; of integers halves are rounded away from the stored number 0."""
    window, quant = _window(c), c.x().type.quant
    if c.options.fused_activation_function == "NONE" and quant is None:
        rounded(c, "average_pool", c.inputs, **window, count_include_pad=0, ties=0.0)
        return
    if quant is not None and quant.axis is None and quant == c.outputs[0].type.quant:
        window["ties"] = -quant.scale[0] * quant.zero_point[0]
    c.activate("average_pool", c.inputs, **window, count_include_pad=0)


@rule("L2_POOL_2D")
def _l2_pool(c: Call) -> None:
    """The root of the mean of squares over what lies inside the image."""
    window = _window(c)
    square = c.add("mul", [c.x(), c.x()], type=real(c))
    mean = c.add("average_pool", [square], type=real(c), **window, count_include_pad=0)
    c.activate("sqrt", [mean])


@rule("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(c: Call) -> None:
    """Coordinates are computed in float32 by the multiplier in / out, so that ties fall as they do in TFLite."""
    c.count(2)
    nearest = c.op == "RESIZE_NEAREST_NEIGHBOR"
    x = matched(c, c.x(), c.outputs[0]) if nearest else c.x()
    same_dtype(c, x, c.outputs[0])
    o = c.options
    if o.align_corners and o.half_pixel_centers:
        c.fail("expected at most one of align_corners and half_pixel_centers")
    mode = "tf_align_corners" if o.align_corners else "tf_half_pixel" if o.half_pixel_centers else "tf_asymmetric"
    rounded(
        c, "resize", [x, None, None, vector(c, 1)], axes=(1, 2), mode="nearest" if nearest else "linear",
        coordinate_transformation_mode=mode,
        nearest_mode="floor" if mode == "tf_asymmetric" else "round_prefer_ceil",
    )  # fmt: skip
