"""Constant weights of products of bf16, in words of two. NumPy only."""

from __future__ import annotations

import numpy as np


def rounded(x: np.ndarray) -> np.ndarray:
    """The bits of f32 as bf16 (uint16), half to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    near = ((bits + (0x7FFF + (bits >> 16 & 1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), (bits >> 16 | 0x40).astype(np.uint16), near)


def pairs(weights: np.ndarray) -> np.ndarray:
    """[..., K / 2] words, which pass for f32 when they are packed, from f32 weights [..., K]: each of two adjacent
    numbers as bf16.
    """
    return rounded(weights).view(np.float32)
