"""The numbers that functions are tried on, and how far a result is from the true one."""

from __future__ import annotations

import numpy as np

BITS = {"float16": (10, 5), "float32": (23, 8), "float64": (52, 11)}
"""Of the mantissa, and of the exponent."""
EDGES = (
    0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 20.0, np.pi / 2, np.pi, 1.7195, np.log(2), np.e,
    9.704, 11.09, 16.636, 17.329, 88.0297, 88.7228, 89.4159, 87.3365, 103.97, 709.0896, 709.7827, 710.4758, 708.3964,
    745.13, 3.8325, 4.0, 5.8636, 6.0, 26.54, 27.2, 37.5, 2.0**12, 2.0**23, 2.0**52, 2.0**53, 8192.0, 2.0**31, 2.0**63,
    16367173 * 2.0**72, 6381956970095103 * 2.0**797, 1e9, 1e16, 1e19, 1.3e154, 1.34e154, 1.9e19, 1.844e19,
)  # fmt: skip
"""Where functions change: ends of domains, the largest and the least whose exponential is a number, halves, what is
nearest to a multiple of pi / 2 (in f32 and f64), whose square or double overflows.
"""


def every_exponent(dtype: str, few: int, every: int = 1, seed: int = 0) -> np.ndarray:
    """Numbers of each `every`-th exponent and both signs: mantissas of 0, 1, all ones, and `few` random ones; the
    neighborhoods of `EDGES`; denormals, zeros, infinities, NaN.
    """
    mantissa, exponent = BITS[dtype]
    kind = np.dtype(f"u{np.dtype(dtype).itemsize}")
    exponents = np.unique(np.r_[np.arange(0, (1 << exponent) - 1, every), 0, 1, (1 << exponent) - 2]).astype(kind)
    some = np.random.default_rng(seed).integers(0, 1 << mantissa, (len(exponents), few), kind)
    fixed = np.broadcast_to(np.array([0, 1, (1 << mantissa) - 1], kind), (len(exponents), 3))
    x = (exponents[:, None] << kind.type(mantissa) | np.hstack([fixed, some])).view(dtype).ravel()
    with np.errstate(over="ignore"):
        turns = np.r_[1:40, 1000, 2607, 5215] * (np.pi / 2)
        near = np.r_[np.asarray(EDGES), turns].astype(dtype)
    near = near[np.isfinite(near)]
    for _ in range(3):
        near = np.unique(np.r_[near, np.nextafter(near, -np.inf, dtype=dtype), np.nextafter(near, np.inf, dtype=dtype)])
    x = np.r_[x, near[np.isfinite(near)], np.inf, np.nan].astype(dtype)
    return np.r_[x, -x]


def every_half() -> np.ndarray:
    """All float16."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def ulps(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """The distance of results from the true ones, in units in the last place of the true one (at least of the least
    normal number; beyond the largest number, infinity counts as the next one). NaN for NaN is 0; else it is inf.

    `true`: float64, or objects of mpmath where `found` is float64.
    """
    info = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        rounded = true.astype(found.dtype)
        both = np.isnan(rounded) & np.isnan(found)
        limit = np.isinf(rounded) | np.isinf(found)
        size = np.clip(np.abs(np.where(np.isfinite(rounded), rounded, info.max)), info.tiny, info.max)
        unit = np.spacing(size).astype(np.float64)
        unit = np.where(size == info.max, float(info.max) * float(info.eps) / 2, unit)
        if true.dtype == object:
            gap = np.array([float((a - b) / u) if same else 0.0 for a, b, u, same in
                            zip(found.tolist(), true, unit.tolist(), (~both & ~limit).tolist(), strict=True)])  # fmt: skip
        else:
            gap = (found.astype(np.float64) - true) / unit
        # One of the two is infinite: as far as the largest number is from where rounding gives infinity.
        top = np.where(found == rounded, 0.0, np.where(_at_the_top(found, rounded, info), 1.0, np.inf))
    gap = np.where(both, 0.0, np.where(limit, top, np.abs(gap)))
    return np.where(np.isnan(gap), np.inf, gap)


def _at_the_top(found: np.ndarray, rounded: np.ndarray, info: np.finfo) -> np.ndarray:
    """Whether one is infinite and the other within 8 units of that, of the same sign."""
    least = np.minimum(np.abs(found), np.abs(rounded))
    same = np.signbit(found) == np.signbit(rounded)
    return same & (least >= info.max * (1 - 8 * info.eps)) & ~np.isnan(least)
