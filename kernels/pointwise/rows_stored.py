"""Rows of the table for kernels whose elements may be of any type. Strides are in elements."""

from __future__ import annotations

from ..core.table import Row

_LOOPS = ("y", "cols", "rows", "d2", "d1", "d0", "y_row", "y_d2", "y_d1", "y_d0")

# Records go on with (x, x_row, x_d2, x_d1, x_d0) for each input. elementwise_stored: then a slot
# per number, zero, low, high; table: the table's address.
ROWS: tuple[Row, ...] = (
    Row(
        "elementwise_stored", "pointwise.elementwise_stored", "make",
        params=("chain", "kinds", "out", "limits"),
        args=_LOOPS,
    ),
    Row(
        "arg_extreme", "pointwise.arg_extreme", "make",
        params=("least", "element", "last"),
        args=("y", "x", "outer", "n", "inner", "x_outer", "x_axis"),
    ),
    Row(
        "reduce_bytes", "pointwise.reduce_bytes", "make",
        params=("op", "element", "last"),
        args=("y", "x", "outer", "n", "inner", "y_outer", "x_outer", "x_axis"),
    ),
    Row("table", "pointwise.lookup", "make", params=("index", "value", "vbmi"), args=_LOOPS),
    Row("flip", "pointwise.convert", "flip", params=(), args=_LOOPS),
    Row("cast", "pointwise.convert", "cast", params=("source", "target"), args=_LOOPS),
)
