"""Transposed and cast constants."""

from __future__ import annotations

import numpy as np

from ..ir import Quantization, Shape
from ..ir.weights import once


def only_moves_ones(dims: Shape, perm: tuple[int, ...]) -> bool:
    """Whether a transpose keeps the order of the data, because it moves extents of 1 only, as far as is known."""
    kept = [p for p in perm if dims[p] != 1]
    return kept == sorted(kept)


def turned_quant(quant: Quantization | None, perm: tuple[int, ...]) -> Quantization | None:
    """The quantization of a transposed value."""
    if quant is None or quant.axis is None:
        return quant
    return Quantization(quant.scale, quant.zero_point, perm.index(quant.axis))


def turned_data(data: np.ndarray, perm: tuple[int, ...]) -> np.ndarray:
    """The array transposed, in memory of its own."""
    return once(_transposed, data, perm)


def _transposed(data: np.ndarray, perm: tuple[int, ...]) -> np.ndarray:
    return np.ascontiguousarray(data.transpose(perm))


def converted(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array in another element type."""
    return once(_converted, data, dtype)


def _converted(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return data.astype(dtype)
