"""Rows of the table for dot, convolution, transposed convolution and the run-time packing of weights."""

from __future__ import annotations

from .table import Row

DOT_ARGS = ("a", "lda", "b", "c", "ldc", "m", "n", "k", "batch", "a_stride", "b_stride", "c_stride", "block",
            "by_columns")
"""a [batch, m, k] with rows of lda, b packed panels, c [batch, m, n] with rows of ldc. Strides in f32 elements.

block: row tiles computed before the next panel; by_columns: threads split the panels (1) or the row tiles (0).
"""

CONV_ARGS = (
    "x", "w", "y", "ldy", "scratch", "scratch_bytes", "images", "sets", "c", "n", "band", "direct", "by_columns",
    "x_image", "x_z", "x_y", "x_x", "d", "h", "w_in", "out_d", "out_h", "out_w", "k_d", "k_h", "k_w",
    "stride_z", "stride_y", "stride_x", "dilation_z", "dilation_y", "dilation_x", "pad_z", "pad_y", "pad_x", "pixel",
)
"""x [images, d, h, w_in, sets * c] with the f32 strides x_*; w packed panels [sets, ...]; y rows of ldy.

sets: the convolution's groups; c, n: input and output channels of each. scratch: scratch_bytes for each thread,
64-byte aligned. band: output rows per band, a multiple of the tile's groups (or >= out_h); direct: x is read in
place (no padding is needed); pixel: f32 per pixel of the band, c or more; by_columns as for dot.
"""

ROWS = (
    Row("conv", "conv", "make_conv", ("groups", "rows", "nv", "tail", "ragged", "chain", "extras"), CONV_ARGS),
    Row("dot", "dot", "make_dot", ("mr", "nv", "tail", "ragged", "chain", "extras"), DOT_ARGS),
)
