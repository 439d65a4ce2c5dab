"""Rows of the table for elementwise, softmax and reduce kernels."""

from __future__ import annotations

from ..core.table import Row

# The record of elementwise goes on with (x, x_row, x_d2, x_d1, x_d0) for each input.
ROWS: tuple[Row, ...] = (
    Row(
        "elementwise", "pointwise.elementwise", "make",
        params=("chain", "kinds"),
        args=("y", "cols", "rows", "d2", "d1", "d0", "y_row", "y_d2", "y_d1", "y_d0"),
    ),
    Row(
        "softmax", "pointwise.softmax", "make",
        params=("log", "last"),
        args=("y", "x", "outer", "n", "inner", "y_outer", "y_axis", "x_outer", "x_axis"),
    ),
    Row(
        "reduce", "pointwise.reduce", "make",
        params=("op", "last", "chain"),
        args=("y", "x", "outer", "n", "inner", "y_outer", "x_outer", "x_axis"),
    ),
)
