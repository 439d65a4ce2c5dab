"""Quantization: real = scale * (stored - zero point).

Semantics: TensorFlow Lite's quantization specification; rounding is half to even and results saturate, everywhere.
Scales are above 0; those of constants may be 0, and files may have negative ones, which `upright` removes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..named import NamedTuple


class Quantization(NamedTuple):
    """real = scale * (stored - zero_point): one of each, or (with `axis`) one for each place along that axis."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    def quantize(self, reals: Any, dtype: Any = None) -> np.ndarray:
        """The stored numbers of reals: rounded half to even, clamped to the type.

        `dtype`: the integer type; that of an input or output is the default. InputError for what are no numbers, or no
        type of integers.
        """
        if dtype is None:
            raise InputError("quantize: expected the integers to give, as in quantize(x, np.int8)")
        try:
            kind, array = np.dtype(dtype), np.asarray(reals, np.float64)
            np.iinfo(kind)
            return to_stored(array, kind, self)
        except (TypeError, ValueError) as error:
            raise InputError(f"quantize({type(reals).__name__}, {dtype!r}): {error}") from None

    def dequantize(self, stored: Any) -> np.ndarray:
        """The float32 of stored numbers. InputError for what are no numbers."""
        try:
            array = np.asarray(stored)
            if array.dtype.kind not in "iufb":
                raise ValueError(f"no numbers of {array.dtype} are stored")
            return to_real(array, self).astype(np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(f"dequantize({type(stored).__name__}): {error}") from None

    def __str__(self) -> str:
        if self.axis is not None:
            return f"{len(self.scale)} scales along axis {self.axis}"
        scale, zero = f"{self.scale[0]:.6g}", self.zero_point[0]
        return f"{scale} * (q {'+' if zero < 0 else '-'} {abs(zero)})" if zero else f"{scale} * q"


class Stored(Quantization):
    """A quantization with a known integer type, `dtype`."""

    dtype: np.dtype

    @staticmethod
    def of(quant: Quantization | None, dtype: np.dtype | None) -> Quantization | None:
        """The quantization of an input or output, which knows its type where there is one."""
        if quant is None or dtype is None:
            return quant
        known = Stored(*quant)
        known.dtype = dtype
        return known

    def quantize(self, reals: Any, dtype: Any = None) -> np.ndarray:
        return super().quantize(reals, self.dtype if dtype is None else dtype)

    quantize.__doc__ = Quantization.quantize.__doc__

    def __repr__(self) -> str:
        return repr(Quantization(*self))


def spread(numbers: tuple[Any, ...], axis: int | None, ndim: int) -> np.ndarray:
    """Scales or zero points as an f64 array that broadcasts against an array of `ndim` axes."""
    array = np.array(numbers, np.float64)
    return array.reshape(()) if axis is None else array.reshape([-1 if i == axis else 1 for i in range(ndim)])


def to_real(stored: np.ndarray, quant: Quantization) -> np.ndarray:
    """The f64 reals of stored numbers."""
    zero = spread(quant.zero_point, quant.axis, stored.ndim)
    return np.asarray((stored.astype(np.float64) - zero) * spread(quant.scale, quant.axis, stored.ndim))


def reals(array: np.ndarray, quant: Quantization | None) -> np.ndarray:
    """The reals of stored numbers, in f64; arrays that are not quantized unchanged."""
    return array if quant is None else to_real(array, quant)


def to_stored(reals: np.ndarray, dtype: np.dtype, quant: Quantization, ties: float | None = None) -> np.ndarray:
    """The stored numbers nearest to reals: rounded half to even, clamped to `dtype`; the least for NaN.

    With `ties`, a real number that `quant` can store, halves are rounded away from that.
    """
    scale, zero = spread(quant.scale, quant.axis, reals.ndim), spread(quant.zero_point, quant.axis, reals.ndim)
    limits = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        steps = np.asarray(reals, np.float64) / scale
        if ties is None:
            rounded = np.rint(steps) + zero
        else:
            # A little more than a half, so that a half is one whatever the division did to it.
            center = np.rint(ties / scale)
            away = np.floor(np.abs(steps - center) + (0.5 + 2.0**-20))
            rounded = center + np.copysign(away, steps - center) + zero
    rounded = np.where(np.isnan(rounded), limits.min, rounded)
    # The greatest int64 is no f64: the limit is the next one below.
    most = limits.max if dtype.itemsize < 8 else limits.max - 1023
    return np.asarray(np.clip(rounded, limits.min, most).astype(dtype))


def is_upright(quant: Quantization | None) -> bool:
    """Whether no scale is negative."""
    return quant is None or min(quant.scale) >= 0


def upright(stored: np.ndarray, quant: Quantization) -> tuple[np.ndarray, Quantization]:
    """Numbers and a quantization of the same reals without negative scales: numbers and zero points are negated.

    Where the type lacks the negated number all are complemented, which any type allows.
    """
    scales, limits = np.array(quant.scale), np.iinfo(stored.dtype)
    turns = np.broadcast_to(spread(tuple(scales < 0), quant.axis, stored.ndim) != 0, stored.shape)
    lacks = limits.min == 0 or bool((turns & (stored == limits.min)).any())
    both = limits.min + limits.max if lacks else 0
    zeros = np.where(scales < 0, both - np.array(quant.zero_point), quant.zero_point)
    turned = Quantization(tuple(np.abs(scales).tolist()), tuple(zeros.tolist()), quant.axis)
    return np.where(turns, both - stored, stored), turned
