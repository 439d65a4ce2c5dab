"""Rows of the table for what is rounded to bytes by the range it has: the rounding, and products that begin with it."""

from __future__ import annotations

from ..core.record import Record
from ..core.table import Row
from .rows import CONV, DOT

RANGE_BYTES = 16
"""Bytes of a range: scale (f32), minus the u8 for 0.0 (i32), steps per unit and the s8 for 0.0 (f32 both)."""

EXTREMES = Record(
    x="address of [images, count] f32",
    images="how many",
    count="numbers of an image",
    parts="of an image, whose extremes are looked for apart",
    extremes="address of [images, parts, 2] f32: the least and greatest number or 0.0, both NaN where one isn't finite",
)

ROUND = Record(
    x="address of [images, rows, run] f32",
    extremes="address of what the kernel `extremes` made of x",
    parts="of an image",
    ranges="address of [images] ranges, which are made",
    y="address of [images, top + rows + bottom, left + run + right] u8 or f32, with what stands for 0.0 around x",
    images="how many",
    rows="of an image",
    run="numbers of a row",
    top="rows above",
    left="numbers before a row",
    bottom="rows below",
    right="numbers behind a row",
)

RANGES = Record(
    ranges="address of the ranges that A or x was rounded by",
    per_image="ranges from image to image (batch to batch)",
    per_row="ranges from row to row",
)
DOT_DYNAMIC = DOT + RANGES
CONV_DYNAMIC = CONV + RANGES
"""Then as for dot and conv (address, stride per image, stride per row) of each extra."""

_LAYER = ("per_row", "chain", "extras")

ROWS = (
    Row("extremes", "gemm.dynamic", "make_extremes", (), EXTREMES),
    Row("dynamic_round", "gemm.dynamic", "make_round", ("grid", "out"), ROUND),
    Row("dot_dynamic", "gemm.dynamic_layer", "make_dot", ("mr", "nv", "tail", "ragged", *_LAYER), DOT_DYNAMIC),
    Row("conv_dynamic", "gemm.dynamic_layer", "make_conv", ("groups", "rows", "nv", "tail", "ragged", *_LAYER),
        CONV_DYNAMIC),
)  # fmt: skip
