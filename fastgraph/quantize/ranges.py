"""Methods that choose the range of a quantized tensor from the values that it had."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from .observe import BINS, Tensor

LEVELS = 256
STEPS = 64
"""Shares of a range that the search for the least error tries."""
LEAST = 0.2
"""The smallest of them."""

Range = tuple[float, float]


def percentile(tensor: Tensor, share: float = 99.99) -> Range:
    """Without the rarest numbers: half of those beyond `share` per cent at each end."""
    assert tensor.counts is not None
    rising = np.cumsum(tensor.counts) / max(int(tensor.counts.sum()), 1)
    rest = (1 - share / 100) / 2
    width = (tensor.high - tensor.low) / BINS
    first, last = np.searchsorted(rising, rest), np.searchsorted(rising, 1 - rest)
    return tensor.low + width * float(first), tensor.low + width * (float(last) + 1)


def least_error(tensor: Tensor) -> Range:
    """The range with the least mean squared error, of rounding inside and of what is cut off: both ends are drawn in
    together, and then each.
    """
    low, high = tensor.low, tensor.high
    shares = np.linspace(LEAST, 1, STEPS)
    both = min(shares, key=lambda share: _error(tensor, low * share, high * share))
    low, high = low * both, high * both
    for _ in range(2):
        low = min((low * share for share in shares), key=lambda end: _error(tensor, end, high))
        high = min((high * share for share in shares), key=lambda end: _error(tensor, low, end))
    return float(low), float(high)


def _error(tensor: Tensor, low: float, high: float) -> float:
    assert tensor.counts is not None
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / (LEVELS - 1)
    x = tensor.centers
    if scale == 0:
        return float(tensor.counts @ (x * x))
    inside = (x >= low) & (x <= high)
    beyond = x - np.clip(x, low, high)
    # A number on the grid is exact: ReLU's zeros are most of many tensors.
    gap = np.where(np.abs(x) < (tensor.high - tensor.low) / BINS, 0.0, scale * scale / 12)
    return float(tensor.counts @ (np.where(inside, gap, 0.0) + beyond * beyond))


def entropy(tensor: Tensor) -> Range:
    """The range whose 128 levels of magnitude lose the least information, by the divergence of Kullback and Leibler
    (Migacz 2017, "8-bit inference with TensorRT").
    """
    assert tensor.counts is not None
    most = max(abs(tensor.low), abs(tensor.high))
    if most == 0:
        return tensor.low, tensor.high
    places = np.minimum((np.abs(tensor.centers) / most * BINS).astype(int), BINS - 1)
    counts = np.bincount(places, tensor.counts, BINS).astype(np.float64)
    counts[0] = counts[1]  # zeros, which any range keeps, would outweigh all else
    ends = range(LEVELS // 2, BINS + 1, 16)
    best = min(ends, key=lambda end: _divergence(counts, end))
    limit = most * best / BINS
    return max(tensor.low, -limit), min(tensor.high, limit)


def _divergence(counts: np.ndarray, end: int) -> float:
    """Of the counts up to `end`, the rest in the last of these, from the same in 128 levels."""
    exact = counts[:end].copy()
    exact[-1] += counts[end:].sum()
    level = np.arange(end) * (LEVELS // 2) // end
    filled = counts[:end] > 0
    sums = np.bincount(level, counts[:end], LEVELS // 2)
    bins = np.maximum(np.bincount(level, filled, LEVELS // 2), 1)
    coarse = np.where(filled, (sums / bins)[level], 0.0)
    p, q = exact / max(exact.sum(), 1), coarse / max(coarse.sum(), 1e-30)
    known = p > 0
    return float(np.sum(p[known] * np.log(p[known] / np.maximum(q[known], 1e-12))))


METHODS: dict[str, Callable[[Tensor], Range]] = {
    "minmax": lambda seen: (seen.low, seen.high), "percentile": percentile, "mse": least_error, "entropy": entropy,
}  # fmt: skip
"""How ranges are found, by the name of the option."""


def method(name: str, share: float) -> Callable[[Tensor], Range]:
    return partial(percentile, share=share) if name == "percentile" else METHODS[name]
