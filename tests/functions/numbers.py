"""The numbers that functions are tried on, and how far a result is from the true one."""

import numpy as np
from mpmath import mp

BITS = {"float16": (10, 5), "float32": (23, 8), "float64": (52, 11)}
"""Of the mantissa, and of the exponent."""
LOST = {"float16": 0.0, "float32": 2.0**-118, "float64": 2.0**-1012}
"""Errors below these are none: parts of a result were denormal."""
EDGES = (
    0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 20.0, np.pi / 2, np.pi, 1.7195, np.log(2), np.e,
    9.704, 11.09, 16.636, 17.329, 88.0297, 88.7228, 89.4159, 87.3365, 103.97, 709.0896, 709.7827, 710.4758, 708.3964,
    745.13, 3.8325, 4.0, 5.8636, 6.0, 26.54, 27.2, 37.5, 2.0**12, 2.0**23, 2.0**52, 2.0**53, 8192.0, 2.0**31, 2.0**63,
    16367173 * 2.0**72, 6381956970095103 * 2.0**797, 1e9, 1e16, 1e19, 1.3e154, 1.34e154, 1.9e19, 1.844e19,
)  # fmt: skip
"""Where functions change: ends of domains, the largest and the least whose exponential is a number, halves, what is
nearest to a multiple of pi / 2 (in f32 and f64), whose square or double overflows.
"""


def every_exponent(dtype: str, few: int, every: int = 1, near: int = 3, seed: int = 0) -> np.ndarray:
    """Numbers of each `every`-th exponent and both signs: mantissas of 0, 1, all ones, and `few` random ones;
    EDGES, multiples of pi / 2, and `near` neighbors of each on either side; denormals, zeros, infinities, NaN.
    """
    mantissa, exponent = BITS[dtype]
    kind = np.dtype(f"u{np.dtype(dtype).itemsize}")
    exponents = np.unique(np.r_[np.arange(0, (1 << exponent) - 1, every), 0, 1, (1 << exponent) - 2]).astype(kind)
    some = np.random.default_rng(seed).integers(0, 1 << mantissa, (len(exponents), few), kind)
    fixed = np.broadcast_to(np.array([0, 1, (1 << mantissa) - 1], kind), (len(exponents), 3))
    x = (exponents[:, None] << kind.type(mantissa) | np.hstack([fixed, some])).view(dtype).ravel()
    with np.errstate(over="ignore"):
        turns = np.r_[1:40, 1000, 2607, 5215] * (np.pi / 2)
        edges = np.r_[np.asarray(EDGES), turns].astype(dtype)
        for _ in range(near):
            edges = np.unique(np.r_[edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)])
    x = np.r_[x, edges[np.isfinite(edges)], np.inf, np.nan].astype(dtype)
    return np.r_[x, -x]


def every_half() -> np.ndarray:
    """All float16."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def flushed(x: np.ndarray) -> np.ndarray:
    """As a run has numbers: those of float32 and float64 that are denormal are zero."""
    if x.dtype == np.float16:
        return x
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(np.zeros((), x.dtype), x), x)


def errors(found: np.ndarray, true: np.ndarray, least: float = 0.0) -> np.ndarray:
    """The distance of results from the true ones, in units in the last place of the true one, or of `least` where that
    is larger. Of NaN and NaN it is 0, of NaN and a number infinite. Beyond the largest number comes infinity, one unit
    away. What is below LOST is none.

    `true`: float64, or objects of mpmath where `found` is float64.
    """
    info = np.finfo(found.dtype)
    with np.errstate(all="ignore"):
        rounded = true.astype(found.dtype)
        size = np.clip(
            np.abs(np.where(np.isfinite(rounded), rounded, info.max)), max(float(info.tiny), least), info.max
        )
        unit = float(info.eps) * 2.0 ** (np.frexp(size.astype(np.float64))[1] - 1)
        gap = _gaps(found, true, unit)
        ends = np.isinf(rounded) | np.isinf(found)
        small = np.minimum(np.abs(found), np.abs(rounded)).astype(np.float64)
        near = (small >= float(info.max) * (1 - 8 * float(info.eps))) & (np.signbit(found) == np.signbit(rounded))
        gap = np.where(ends, np.where(found == rounded, 0.0, np.where(near, 1.0, np.inf)), gap)
        gap = np.where(gap * unit < LOST[found.dtype.name], 0.0, gap)
    gap = np.where(np.isnan(rounded) & np.isnan(found), 0.0, gap)
    return np.where(np.isnan(gap), np.inf, gap)


def _gaps(found: np.ndarray, true: np.ndarray, unit: np.ndarray) -> np.ndarray:
    if true.dtype != object:
        return np.abs(found.astype(np.float64) - true) / unit
    pairs = zip(found.tolist(), true, unit.tolist(), strict=True)
    return np.array([abs(float((y - t) / u)) if np.isfinite(y) and mp.isfinite(t) else np.nan for y, t, u in pairs])
