"""Rows of the table for depthwise convolution, pools and means of bytes. All tensors are channels last."""

from __future__ import annotations

from ..core.table import Row

HEAD = ("x", "ldx", "y", "ldy", "n", "h", "w", "c", "oh", "ow", "pad_top", "pad_left")
"""x [n, h, w, c] and y [n, oh, ow, c], both u8, with pixels of ldx and ldy bytes. y overlaps nothing else."""
TAIL = ("packed", "zero_y", "low", "high")
"""packed: pick_depthwise_int8.pack_depthwise_int8's; y = clamp(rint(sum * multiplier) + zero_y, low, high)."""
SCHEME = ("kh", "kw", "sh", "sw", "dh", "dw", "rows", "wide")

ANY = (
    *("x", "ldx", "y", "ldy", "n", "h", "w", "c", "oh", "ow", "kh", "kw", "sh", "sw", "dh", "dw", "pad_top"),
    *("pad_left", "packed", "zero_x", "zero_y", "low", "high"),
)
"""Kernel, strides and dilations at run time; c counts channels of y. packed: int32 bias, f32 multipliers, int32
weights.
"""

POOL = (
    *("x", "ldx", "y", "ldy", "n", "h", "w", "c", "oh", "ow", "kh", "kw", "sh", "sw", "dh", "dw", "pad_top"),
    *("pad_left", "end_y", "end_x", "include_pad", "ratio", "zero_x", "zero_y", "low", "high"),
)
"""end_y, end_x: where the padded image ends, counted in the image; ratio: the bits of an f64."""

ROWS = (
    Row("depthwise_int8", "window.depthwise_int8", "make_depthwise", (*SCHEME, "tile", "lanes", "partial", "pieces"),
        (*HEAD, "band", "fill", *TAIL)),
    Row("depthwise_int8_across", "window.depthwise_int8", "make_depthwise_across", SCHEME,
        (*HEAD, "zero_x", *TAIL, "scratch", "scratch_bytes", "line", "plane", "lines", "period")),
    Row("depthwise_int8_any", "window.depthwise_int8_any", "make_depthwise_any", ("multiplier", "out"), ANY),
    Row("pool_int8", "window.pool_int8", "make_pool", ("op", "kh", "kw", "lanes", "partial"), POOL),
)  # fmt: skip
