"""Rows of the table for dot, convolution, transposed convolution and the run-time packing of weights."""

from __future__ import annotations

from .table import Row

DOT_ARGS = ("a", "lda", "b", "c", "ldc", "m", "n", "k", "batch", "a_stride", "b_stride", "c_stride", "block",
            "by_columns")
"""a [batch, m, k] with rows of lda, b packed panels, c [batch, m, n] with rows of ldc. Strides in f32 elements.

block: row tiles computed before the next panel; by_columns: threads split the panels (1) or the row tiles (0).
"""

ROWS = (
    Row("dot", "dot", "make_dot", ("mr", "nv", "tail", "ragged", "chain", "extras"), DOT_ARGS),
)
