"""Constant weights of products of bf16, in words of two. NumPy only."""

from __future__ import annotations

import numpy as np

PART = 1 << 20
"""Weights that are rounded at a time, with several arrays of as many numbers."""
ROUNDS = 2
"""Guesses of a threshold between two numbers, behind that in the middle."""


def rounded(x: np.ndarray) -> np.ndarray:
    """The bits of f32 as bf16 (uint16), half to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    even = ((bits + (0x7FFF + (bits >> 16 & 1))) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), (bits >> 16 | 0x40).astype(np.uint16), even)


def pairs(weights: np.ndarray) -> np.ndarray:
    """[..., K / 2] words, which pass for f32 when they are packed, from f32 weights [..., K]: each of two adjacent
    numbers as bf16.
    """
    return rounded(weights).view(np.float32)


def balanced(weights: np.ndarray) -> np.ndarray:
    """f32 weights [n, taps..., c] as numbers that are bf16: each is one of the two next to it, such that the sums over
    taps, or over the c of a single tap, are nearly what they were.

    What is multiplied mostly has a mean other than 0, and is alike from tap to tap, so that most of what rounding to
    the nearest ones loses is what these sums lose.
    """
    if not weights.size or not max(float(weights.max()), -float(weights.min())) < 2.0**126:
        return weights
    found = np.ascontiguousarray(weights, np.float32).reshape(len(weights), -1, weights.shape[-1])
    made, step = np.empty_like(found), max(PART * len(found) // found.size, 1)
    for i in range(0, len(found), step):
        some = found[i : i + step]
        quarters = (some.view(np.uint32) & 0x7F800000).view(np.float32) * np.float32(2.0**-9)
        (_by_taps if found.shape[1] > 1 else _by_rows)(some, quarters, made[i : i + step])
    return made.reshape(weights.shape)


def _by_taps(weights: np.ndarray, quarters: np.ndarray, made: np.ndarray) -> None:
    """A tap takes what those before it lost."""
    lost = np.zeros_like(weights[:, 0])
    for tap in range(weights.shape[1]):
        made[:, tap] = _nudged(weights[:, tap], quarters[:, tap], lost)
        lost += weights[:, tap] - made[:, tap]


def _by_rows(weights: np.ndarray, quarters: np.ndarray, made: np.ndarray) -> None:
    """All numbers of a row are moved by the same part of their units before they are rounded, the best of a few."""
    share, least = np.float32(0), np.float32(np.inf)
    whole = np.maximum(quarters.sum(-1, keepdims=True), np.finfo(np.float32).tiny)
    for _ in range(1 + ROUNDS):
        nudged = _nudged(weights, quarters, share * quarters)
        lost = (weights - nudged).sum(-1, keepdims=True)
        np.copyto(made, nudged, where=np.abs(lost) < least)
        share, least = share + lost / whole, np.minimum(np.abs(lost), least)


def _nudged(x: np.ndarray, quarters: np.ndarray, more: np.ndarray) -> np.ndarray:
    """x, and up to a quarter of its unit in bf16 more, rounded."""
    bits = (x + np.clip(more, -quarters, quarters)).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).view(np.float32)
