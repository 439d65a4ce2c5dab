"""In which order vectors hold bytes that are interleaved (isa/interleave.py): plain numbers, for packers."""

from __future__ import annotations

import numpy as np

PARTS = 4
"""Vectors of 32-bit lanes that a vector of bytes becomes."""


def lane_order(width: int) -> np.ndarray:
    """[PARTS, width // 4]: which of the `width` bytes of a vector each 32-bit lane of its parts holds."""
    lane, part, e = np.meshgrid(range(width // 16), range(PARTS), range(4), indexing="ij")
    return (16 * lane + 4 * part + e).transpose(1, 0, 2).reshape(PARTS, width // 4)
