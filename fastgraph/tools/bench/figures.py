"""Statistics of latencies. Calls of a burst depend on one another, so that a round counts once, by its median."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, erfc, exp, sqrt
from typing import Any

import numpy as np

PERCENTILES = (50, 90, 95, 99)
CONFIDENCE = 0.95
Z = 1.959964
"""The normal distribution's quantile for CONFIDENCE, two-sided."""
BLOCKS = 20
"""At most so many medians of a run are compared with those of another: neighbors are alike, and count as one."""


def latency(bursts: Sequence[np.ndarray]) -> dict[str, Any]:
    """Of seconds a call by round: `calls`; `mean_ms`, `min_ms`, `p50_ms`, `p90_ms`, `p95_ms`, `p99_ms` of all calls;
    `quantiles_ms`, their 0th to 100th percentiles; `medians_ms`, one for each round.
    """
    ms = 1e3 * np.concatenate(bursts)
    quantiles = np.percentile(ms, range(101))
    return {
        "calls": len(ms),
        "mean_ms": float(ms.mean()),
        "min_ms": float(ms.min()),
        **{f"p{p}_ms": float(quantiles[p]) for p in PERCENTILES},
        "quantiles_ms": _rounded(quantiles),
        "medians_ms": _rounded(1e3 * medians(bursts)),
    }


def medians(bursts: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([np.median(burst) for burst in bursts])


def _rounded(numbers: np.ndarray) -> list[float]:
    """Six digits, so that files stay small."""
    return [float(f"{number:.6g}") for number in numbers]


def median_interval(values: Sequence[float] | np.ndarray) -> tuple[float, float] | None:
    """An interval that holds the median of what the values are drawn from with probability CONFIDENCE at least: two
    of the sorted values, by the binomial distribution (J.-Y. Le Boudec, Performance Evaluation of Computer and
    Communication Systems, 2010, theorem 2.1), whatever their distribution. None for fewer than 6.
    """
    ordered, n = np.sort(values), len(values)
    tail, k = 0, 0
    # tail: how many of 2**n ways of lying above or below the median put at most k values below it
    while k <= n and 2 * (tail + comb(n, k)) <= (1 - CONFIDENCE) * 2**n:
        tail, k = tail + comb(n, k), k + 1
    return (float(ordered[k - 1]), float(ordered[n - k])) if k else None


def ratio(
    one: Sequence[np.ndarray], other: Sequence[np.ndarray], paired: bool
) -> tuple[float, tuple[float, float] | None]:
    """The time of one's calls / the other's, by bursts: the median of the rounds' ratios where they are of the same
    rounds, so that drift cancels; else that of all pairs, as in `change`. With an interval of CONFIDENCE.
    """
    a, b = medians(one), medians(other)
    if paired:
        return float(np.median(a / b)), median_interval(a / b)
    found = change(blocks(b), blocks(a))
    low, high = found["interval"]
    return found["change"], (low, high)


def blocks(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Medians of consecutive values, BLOCKS at most: with slow drift, these depend less on one another."""
    return np.array([np.median(part) for part in np.array_split(values, min(BLOCKS, len(values)))])


def change(old: Sequence[float] | np.ndarray, new: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """How two samples of times differ. `change`: new / old, Hodges and Lehmann's estimate on logarithms; `interval` of
    CONFIDENCE around it; `p`: of Mann and Whitney's test, two-sided, in normal approximation with ties and continuity,
    which needs no distribution of times (M. Hollander, D. A. Wolfe, Nonparametric Statistical Methods, chapter 4).
    """
    x, y = np.log(old), np.log(new)
    n, m = len(x), len(y)
    gaps = np.sort((y[:, None] - x[None, :]).ravel())
    spread = sqrt(n * m * (n + m + 1) / 12)
    k = max(int(n * m / 2 - Z * spread) - 1, 0)
    interval = [exp(gaps[k]), exp(gaps[n * m - 1 - k])]
    return {"change": exp(float(np.median(gaps))), "interval": interval, "p": _p(x, y)}


def _p(x: np.ndarray, y: np.ndarray) -> float:
    n, m = len(x), len(y)
    _, ranks, counts = np.unique(np.concatenate([x, y]), return_inverse=True, return_counts=True)
    middles = np.cumsum(counts) - (counts - 1) / 2
    u = middles[ranks[:n]].sum() - n * (n + 1) / 2
    total = n + m
    ties = (counts.astype(float) ** 3 - counts).sum() / (total * (total - 1))
    variance = n * m / 12 * (total + 1 - ties)
    distance = max(abs(u - n * m / 2) - 0.5, 0.0)
    return 1.0 if variance <= 0 else erfc(distance / sqrt(2 * variance))
