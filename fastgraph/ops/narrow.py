"""Rounding to element types that NumPy lacks and graphs hold widened. Rules: ONNX Cast, the OCP formats."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.pointwise.exact_names import FLOATS

INTEGERS = {"int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def rounded(x: np.ndarray, dtype: np.dtype, kind: str, saturate: bool = True, round_mode: str = "up") -> np.ndarray:
    """x as values of the format `kind`, held in `dtype`. Integers keep their low bits, as a cast does."""
    if kind == "float8e8m0":
        return _power_of_two(x.astype(np.float64), saturate, round_mode).astype(dtype)
    if kind in INTEGERS:
        low, high = INTEGERS[kind]
        whole = np.trunc(x).astype(np.int64) if x.dtype.kind == "f" else x.astype(np.int64)
        return (((whole - low) % (high - low + 1)) + low).astype(dtype)
    least, bits, greatest, beyond = FLOATS[kind]
    wide = x.astype(np.float64)
    exponent = np.maximum(np.frexp(wide)[1] - 1, least)
    step = np.ldexp(1.0, exponent - bits)
    y = np.rint(wide / step) * step
    over = np.abs(y) > greatest
    if beyond == "none" or (saturate and beyond != "overflow"):
        y = np.where(over, np.copysign(greatest, y), y)
    else:
        y = np.where(over, np.nan if beyond == "nan" else np.copysign(np.inf, y), y)
    if beyond == "none":
        y = np.where(np.isnan(y), -0.0, y)
    y = y + 0.0 if kind.endswith("fnuz") else y
    return y.astype(dtype)


def _power_of_two(x: np.ndarray, saturate: bool, mode: str) -> np.ndarray:
    """The power of two from 2 ** -127 to 2 ** 127 that x rounds to."""
    fraction, exponent = np.frexp(np.abs(x))
    exact = np.where(fraction == 0.5, 1, 0)
    up = {"up": 1 - exact, "down": 0 * exact, "nearest": np.where(fraction >= 0.75, 1, 0)}[mode]
    power = exponent - 1 + up
    low, high = (x == 0) | (power < -127), np.isinf(x) | (power > 127)
    y = np.ldexp(1.0, np.clip(power, -127, 127))
    y = np.where(low, 2.0**-127 if saturate else np.where(x == 0, np.nan, 2.0**-127), y)
    y = np.where(high, 2.0**127 if saturate else np.nan, y)
    return np.where(np.isnan(x), np.nan, y)


def saturated_to(x: np.ndarray, kind: str) -> np.ndarray:
    """Rounded numbers held within a narrow integer format, NaN as the least."""
    low, high = INTEGERS[kind]
    return np.clip(np.where(np.isnan(x), low, x), low, high)


def is_narrow(kind: Any) -> bool:
    """Whether a node's `format` attribute asks for a type of this module."""
    return bool(kind) and (kind in FLOATS or kind in INTEGERS or kind == "float8e8m0")
