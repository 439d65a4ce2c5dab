"""Rows of the table for dot, convolution, transposed convolution and the run-time packing of weights."""

from __future__ import annotations

from ..core.record import Record
from ..core.table import Row

DOT = Record(
    a="address of A [batch, m, k]",
    lda="elements from row to row of A",
    b="address of packed panels [batch, panels, ...], those of this call's n columns",
    c="address of C [batch, m, n0 + n or more], of which columns n0.. are written",
    ldc="elements from row to row of C",
    m="rows of A and C",
    n="columns computed here",
    n0="the first of them",
    k="words of 4 bytes in a sum",
    batch="matrices",
    a_stride="elements from matrix to matrix of A",
    b_stride="words from matrix to matrix of the panels, 0 when all share one",
    c_stride="elements from matrix to matrix of C",
    block="tiles of rows computed before the next panel",
    by_columns="whether threads split the panels; else the tiles of rows",
)

CONV = Record(
    x="address of the input [images, d, h, w, sets * channels]",
    w="address of packed panels [sets, panels, ...], those of this call's channels",
    y="address of the result [images, out_d, out_h, out_w, channels], whole",
    table="address of [segments] int64: bytes from a pixel to where each segment begins",
    scratch="address of scratch_bytes for each thread, 64-byte aligned",
    scratch_bytes="bytes",
    images="how many",
    sets="groups",
    out_d="slices of the result",
    out_h="rows of it",
    out_w="pixels of a row",
    n="channels of each group computed here",
    n0="the first of them",
    n_set="channels of a group",
    k="words of 4 bytes in a sum: segments * length",
    ldy="elements from pixel to pixel of y",
    x_image="bytes from image to image of x",
    x_set="bytes from group to group",
    x_z="bytes from slice to slice",
    x_y="bytes from row to row",
    x_first="bytes from a row's start to the first pixel that is copied",
    d="slices of x",
    h="rows of x",
    k_d="slices of the kernel",
    stride_z="slices from output to output",
    dilation_z="slices from tap to tap",
    pad_z="slices of padding before",
    stride_y="rows from output to output",
    pad_y="rows of padding before",
    band="rows of the result that a band is for",
    reach="rows of a band for the first of them",
    step_y="rows of x from row to row of a band",
    move_y="rows of a band for each further one of the result",
    left="elements of padding that a row of a band begins with",
    pixels="runs copied after that",
    run="elements of a run",
    x_step="bytes from run to run in x",
    pixel_step="bytes from run to run in a band",
    right="elements of padding after them",
    band_z="bytes from slice to slice of a band",
    band_y="bytes from row to row",
    rs="bytes from pixel to pixel, in a band or `direct` in x",
    gs="bytes from one row of outputs to the next, in a band or `direct` in x",
    segments="runs of words that a sum is made of",
    length="words of a segment",
    direct="whether x is read without a band",
    by_columns="whether threads split the panels; else bands",
    fill="the word whose bytes padding repeats",
)

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
        "conv", "gemm.conv", "make_conv", ("groups", "rows", "nv", "tail", "ragged", "chain", "extras"), CONV
    ),
    Row("dot", "gemm.dot", "make_dot", ("mr", "nv", "tail", "ragged", "chain", "extras"), DOT),
)
