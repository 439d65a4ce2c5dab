"""Rows of the table for depthwise convolution and pooling. All tensors are channels last."""

from __future__ import annotations

from ..core.table import Row

HEAD = ("x", "ldx", "y", "ldy", "n", "h", "w", "c", "oh", "ow", "pad_top", "pad_left", "band")
"""x [n, h, w, c] and y [n, oh, ow, c] with pixels of ldx and ldy f32. band: rows of y computed for a block
of channels before the next block; any number from 1 on gives the same bits. The slots of extra operands,
three each, follow a kernel's own. y overlaps nothing else, except that an extra "full" operand may be y.
"""

ANY_HEAD = (
    *("x", "ldx", "y", "ldy", "n", "d", "h", "w", "c", "od", "oh", "ow", "kd", "kh", "kw", "sd", "sh", "sw"),
    *("dd", "dh", "dw", "pad_front", "pad_top", "pad_left"),
)
"""As HEAD with a depth and with kernel, strides and dilations at run time; c counts channels of y."""

DEPTHWISE = ("weights", "bias")
"""weights [kernel..., c] dense, bias [c]."""
POOL = ("pad_bottom", "pad_right")
POOL_ANY = ("pad_back", "pad_bottom", "pad_right")

ROWS = (
    Row(
        "depthwise",
        "window.depthwise",
        "make_depthwise",
        ("kh", "kw", "sh", "sw", "tile", "dh", "dw", "vectors", "together", "chain", "extras"),
        (*HEAD, *DEPTHWISE),
    ),
    Row(
        "pool",
        "window.pool",
        "make_pool",
        ("op", "kh", "kw", "sh", "sw", "tile", "include_pad", "chain", "extras"),
        (*HEAD, *POOL),
    ),
    Row(
        "depthwise_any",
        "window.window_any",
        "make_depthwise_any",
        ("multiplier", "chain", "extras"),
        (*ANY_HEAD, *DEPTHWISE),
    ),
    Row(
        "pool_any",
        "window.window_any",
        "make_pool_any",
        ("op", "include_pad", "chain", "extras"),
        (*ANY_HEAD, *POOL_ANY),
    ),
)
