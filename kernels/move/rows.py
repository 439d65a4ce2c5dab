"""Rows of the table for the data-movement kernels. Strides, offsets and runs are bytes; counts are elements.

kernels/moves.py and kernels/taps.py fill these records.
"""

from __future__ import annotations

from ..core.table import Row
from .moves import outer_slots

_LOOPS = outer_slots("n", "s", "d")

_RESIZE = ("dst", "src", "offset", "weight", "bias", "count", "outer", "outer_s", "outer_d", "n", "d", "length")
_BILINEAR = (
    *("dst", "src", "offset_y", "weight_y", "offset_x", "weight_x", "outer", "outer_s", "outer_d"),
    *("height", "dy", "width", "dx", "run"),
)

ROWS = (
    Row(
        "copy",
        "move.copy",
        "copy",
        ("mode", "itemsize"),
        ("dst", "src", "count", "s0", "d0", "rows", "s1", "d1", *_LOOPS),
    ),
    Row(
        "transpose",
        "move.transpose",
        "transpose",
        ("itemsize", "narrow"),
        ("dst", "src", "rows", "d1", "cols", "s1", "high", "wide", *_LOOPS),
    ),
    Row(
        "pad",
        "move.pad",
        "pad",
        (),
        ("dst", "src", "fill", "left", "run", "right", *outer_slots("n", "low", "in", "s", "d")),
    ),
    Row(
        "gather",
        "move.gather",
        "gather",
        ("itemsize", "index_size"),
        ("dst", "src", "index", "error", "count", "axis", "run", "s", "d", "outer", "outer_s", "outer_d"),
    ),
    Row(
        "take",
        "move.gather",
        "take",
        ("itemsize",),
        ("dst", "src", "fill", "rows", "t", "d", *outer_slots("n", "t", "d")),
    ),
    Row("resize", "move.resize", "resize", ("taps", "run"), _RESIZE),
    Row("resize_stored", "move.resize", "resize", ("taps", "run", "source", "target"), (*_RESIZE, "zero")),
    Row("bilinear", "move.resize", "bilinear", (), _BILINEAR),
    Row("bilinear_stored", "move.resize", "bilinear", ("source", "target"), (*_BILINEAR, "zero")),
)
