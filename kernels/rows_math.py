"""Rows of the table for elementwise, softmax and reduce kernels."""

from __future__ import annotations

from .table import Row

ROWS: tuple[Row, ...] = (
    Row(
        "elementwise", "elementwise", "make",
        params=("chain", "kinds"),
        args=("y", "cols", "rows", "d2", "d1", "d0", "y_row", "y_d2", "y_d1", "y_d0",
              "per input: x, x_row, x_d2, x_d1, x_d0"),
    ),
)
