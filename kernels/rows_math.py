"""Rows of the table for elementwise, softmax and reduce kernels."""

from __future__ import annotations

from .table import Row

ROWS: tuple[Row, ...] = ()
