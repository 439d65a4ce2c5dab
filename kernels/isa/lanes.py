"""The order of interleaved bytes in vectors (isa/interleave.py), as plain numbers for packers."""

from __future__ import annotations

import numpy as np

PARTS = 4
"""Vectors of 32-bit lanes that a vector of bytes becomes."""


def lane_order(width: int) -> np.ndarray:
    """[PARTS, width // 4]: which of `width` bytes each 32-bit lane of the parts holds."""
    lane, part, e = np.meshgrid(range(width // 16), range(PARTS), range(4), indexing="ij")
    return (16 * lane + 4 * part + e).transpose(1, 0, 2).reshape(PARTS, width // 4)
