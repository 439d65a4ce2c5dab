"""Rows of the table for dot, convolution, transposed convolution and the run-time packing of weights."""

from __future__ import annotations

from ..core.table import Row

DOT_ARGS = (
    "a", "lda", "b", "c", "ldc", "m", "n", "n0", "k", "batch", "a_stride", "b_stride", "c_stride",
    "block", "by_columns",
)
"""a [batch, m, k] with rows of lda, b packed panels of n columns, c [batch, m, n0 + n or more] with rows of
ldc: columns n0.. are written. Strides in f32. An extra operand's columns start at n0 as well.

block: row tiles computed before the next panel; by_columns: threads split the panels (1) or the row tiles
(0).
"""

CONV_ARGS = (
    "x", "w", "y", "table", "scratch", "scratch_bytes", "images", "sets", "out_d", "out_h", "out_w",
    "n", "n0", "n_set", "k", "ldy", "x_image", "x_set", "x_z", "x_y", "x_first", "d", "h", "k_d",
    "stride_z", "dilation_z", "pad_z", "stride_y", "pad_y", "band", "reach", "step_y", "move_y", "left",
    "pixels", "run", "x_step", "pixel_step", "right", "band_z", "band_y", "rs", "gs", "segments",
    "length", "direct", "by_columns", "fill",
)
"""What pick_conv.conv_record works out from a convolution's geometry. Strides are in bytes, but ldy (a row
of y) in elements of y.

w: packed panels [sets, ...]; table: [segments] int64 byte offsets; scratch: scratch_bytes for each thread,
64-byte aligned; sets: groups, of n_set output channels each, n from n0 on computed here; k: words of 4
bytes per sum, in `segments` runs of `length`. A band holds `band` output rows: an input row for every
step_y-th, move_y of them per output row and reach for one; each is `left` elements of padding, `pixels`
runs of `run` elements, `right` of padding. Padding is the low 4 bytes of `fill`, over and over. rs, gs:
from pixel to pixel and from output row to output row in a band, or in x when `direct`.
"""

PACK_ARGS = ("b", "ldb", "packed", "n", "k", "batch", "b_stride")
"""b [batch, k, n], transposed [batch, n, k], rows of ldb f32; packed [batch, panels, 1 + k, nv * lanes]."""

FOLD_ARGS = (
    "t", "y", "ldy", "bias", "scratch", "scratch_bytes", "images", "sets", "n", "d", "h", "w", "out_d",
    "out_h", "out_w", "k_d", "k_h", "k_w", "stride_z", "stride_y", "stride_x", "dilation_z",
    "dilation_y", "dilation_x", "pad_z", "pad_y", "pad_x",
)
"""t [sets, images, d, h, w, taps, n] (dot's products), bias [sets * n], y [images, out..., sets * n] in
rows of ldy.

scratch: scratch_bytes for each thread, 4 * out_w * n or more. Sizes and strides in elements, pads those
before.
"""

WINOGRAD_ARGS = (
    "x", "w", "y", "scratch", "scratch_bytes", "images", "out_h", "out_w", "n", "k", "ldy", "x_image", "x_y",
    "x_first", "h", "pad_y", "band", "across", "left", "pixels", "run", "x_step", "pixel_step", "right",
    "band_y", "pixel", "v_start", "v_row", "v_plane", "s_start", "s_plane", "by_columns",
)
"""What pick_winograd.winograd_record works out. Strides are in bytes, but ldy (a row of y) in f32.

w: packed panels [places, ...], then the bias; band: rows of tiles at a time, `across` tiles in each. A row of
the band is `left` zeros, `pixels` runs of `run` f32, `right` zeros. Scratch holds the band, from v_start on the
transformed inputs (v_row per tile, v_plane per place), from s_start on the sums of one panel (s_plane per place).
"""

ROWS = (
    Row(
        "winograd", "gemm.winograd", "make_winograd", ("m", "mr", "nv", "ragged", "chain", "extras"), WINOGRAD_ARGS
    ),
    Row("fold", "gemm.conv_transpose", "make_fold", ("chain", "extras"), FOLD_ARGS),
    Row("pack_b", "gemm.pack_kernel", "make_pack", ("nv", "transposed"), PACK_ARGS),
    Row(
        "conv", "gemm.conv", "make_conv", ("groups", "rows", "nv", "tail", "ragged", "chain", "extras"), CONV_ARGS
    ),
    Row("dot", "gemm.dot", "make_dot", ("mr", "nv", "tail", "ragged", "chain", "extras"), DOT_ARGS),
)
