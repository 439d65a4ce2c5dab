"""Rows of the table for what is rounded to bytes by the range it has: the rounding, and products that begin with it."""

from __future__ import annotations

from ..core.table import Row
from .rows import CONV, DOT

RANGE_BYTES = 16
"""Bytes of a range: scale (f32), minus the u8 for 0.0 (i32), steps per unit and the s8 for 0.0 (f32 both)."""

EXTREMES_ARGS = ("x", "images", "count", "parts", "found")
"""x [images, count] f32; found [images, parts, 2] f32: the least and greatest number (or 0.0) of each part of an
image; both NaN where one isn't finite."""

ROUND_ARGS = ("x", "found", "parts", "ranges", "y", "images", "rows", "run", "top", "left", "bottom", "right")
"""x [images, rows, run] f32; found as `extremes` makes it; ranges [images] are made; y [images, top + rows + bottom,
left + run + right], u8 or f32, with what stands for 0.0 around x."""

_LAYER = ("per_row", "chain", "extras")

# Records of dot_dynamic and conv_dynamic go on with the extras. The first is (ranges, those per batch or image, those
# per row); the others are as of dot and conv. per_row: whether rows have ranges of their own.
ROWS = (
    Row("extremes", "gemm.dynamic", "make_extremes", (), EXTREMES_ARGS),
    Row("dynamic_round", "gemm.dynamic", "make_round", ("grid", "out"), ROUND_ARGS),
    Row("dot_dynamic", "gemm.dynamic_layer", "make_dot", ("mr", "nv", "tail", "ragged", *_LAYER), DOT),
    Row("conv_dynamic", "gemm.dynamic_layer", "make_conv", ("groups", "rows", "nv", "tail", "ragged", *_LAYER),
        CONV),
)
