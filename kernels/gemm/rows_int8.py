"""Rows of the table for dot and convolution of u8 activations with s8 weights, and their records."""

from __future__ import annotations

from ..core.record import Record
from ..core.table import Row
from .rows import CONV, DOT, FOLD_ARGS

STORED = Record(
    zero_point="what is added to rint(sum * multiplier); nothing for f32 and i32",
    low="the least number that is stored: of the result's type, f32 bits, or nothing for i32",
    high="the greatest, alike",
)
DOT_INT8 = DOT + STORED
CONV_INT8 = CONV + STORED
FOLD_INT8 = Record(dict.fromkeys(FOLD_ARGS, "")) + Record(multipliers="address of [sets * n] f32") + STORED
"""FOLD for i32 products and an i32 bias."""

ROW_INT8 = (
    Record(
        a="address of A [k words]",
        b="address of packed panels, those of this call's n columns, with weights of 0 for what A lacks",
        c="address of C [n0 + n or more], of which columns n0.. are written",
        n="columns computed here",
        n0="the first of them",
        k="words of 4 bytes in a sum, a multiple of pick_int8.chains",
    )
    + STORED
)

PACK_INT8 = Record(
    b="address of B [batch, k, n] u8",
    ldb="bytes from row to row of B",
    packed="address of the panels that pack_int8 makes of B - 128 for nv = 4 and `rowsum`",
    n="columns",
    k="rows of B",
    batch="matrices",
    b_stride="bytes from matrix to matrix of B",
    minus_zero_a="minus the zero point of A",
    start="what each sum begins with, but for minus_zero_a * (sum of the column's s8)",
    multiplier="of all columns, f32 bits",
    minus_zero_b="minus the zero point of B - 128",
)

ROWS = (
    Row("dot_int8", "gemm.int8", "make_dot_int8", ("mr", "nv", "tail", "ragged", "out", "rowsum"), DOT_INT8),
    Row(
        "conv_int8", "gemm.int8", "make_conv_int8", ("groups", "rows", "nv", "tail", "ragged", "out", "rowsum"),
        CONV_INT8,
    ),
    Row("row_int8", "gemm.row_int8", "make_row_int8", ("nv", "ragged", "out", "rowsum", "signed"), ROW_INT8),
    Row("fold_int8", "gemm.fold_int8", "make_fold_int8", ("out",), FOLD_INT8),
    Row("pack_b_int8", "gemm.pack_kernel_int8", "make_pack_int8", (), PACK_INT8),
)  # fmt: skip
