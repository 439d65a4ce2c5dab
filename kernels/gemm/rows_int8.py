"""Rows of the table for dot and convolution of u8 activations with s8 weights."""

from __future__ import annotations

from ..core.table import Row
from .rows import COL2IM, CONV, DOT

STORED = ("zero_point", "low", "high")
"""Of the result: q = clamp(rint(sum * multiplier) + zero_point, low, high); for s8 all three plus 128, for f32 low
and high are f32 bits and zero_point is nothing, for i32 all are nothing."""

ROW_INT8_ARGS = ("a", "b", "c", "n", "n0", "k")
"""As DOT, of one row. k is a multiple of pick_int8.chains: a is read so
far, and b has weights of 0 there."""

PACK_INT8_ARGS = (
    "b", "ldb", "packed", "n", "k", "batch", "b_stride", "minus_zero_a", "start", "multiplier", "minus_zero_b",
)
"""b [batch, k, n] u8, rows of ldb bytes; packed panels as pack_int8's for nv = 4 and `rowsum`. Its s8 are 128 less, and
so is the zero point that minus_zero_b is minus; a sum begins with start + minus_zero_a * (sum of a column's s8);
multiplier: f32 bits.
"""

# fold_int8 sums i32 products and an i32 bias; multipliers: f32 [sets * n].
ROWS = (
    Row(
        "dot_int8", "gemm.int8", "make_dot_int8", ("mr", "nv", "tail", "ragged", "out", "rowsum"),
        (*DOT, *STORED),
    ),
    Row(
        "conv_int8", "gemm.int8", "make_conv_int8", ("groups", "rows", "nv", "tail", "ragged", "out", "rowsum"),
        (*CONV, *STORED),
    ),
    Row(
        "row_int8", "gemm.row_int8", "make_row_int8", ("nv", "ragged", "out", "rowsum", "signed"),
        (*ROW_INT8_ARGS, *STORED),
    ),
    Row("fold_int8", "gemm.fold_int8", "make_fold_int8", ("out",), (*COL2IM, "multipliers", *STORED)),
    Row("pack_b_int8", "gemm.pack_kernel_int8", "make_pack_int8", (), PACK_INT8_ARGS),
)  # fmt: skip
