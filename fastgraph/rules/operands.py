"""Questions that rules have about a node's operands and results; transposed and cast constants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir import Node, Quantization, Shape, Value
from ..ir.weights import once

BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
WHOLE = Quantization((1.0,), (0,))
"""Of bytes that stand for themselves."""
SUMMED = 1 << 8
"""How many products of bytes f32 sums without rounding."""


def known(*values: Value | None, dtypes: Sequence[Any] | None = None) -> bool:
    """Whether values (but for absent ones) are concrete and hold something, of one of these element types."""
    there = [v.type for v in values if v is not None]
    kinds = None if dtypes is None else [np.dtype(d) for d in dtypes]
    return all(t.concrete and t.size and t.quant is None and (kinds is None or t.dtype in kinds) for t in there)


def number(node: Node, i: int) -> Any:
    """The one number that an operand holds, where that is constant; else None."""
    found = node.const(i)
    return None if found is None else found.reshape(-1)[0].item()


def decided(node: Node, *which: int) -> bool:
    """Whether these operands are constant or absent."""
    return all(not node.has(i) or node.const(i) is not None for i in which)


def real(dtype: np.dtype | None) -> bool:
    return dtype in (np.dtype(np.float32), np.dtype(np.float64))


def only_moves_ones(dims: Shape, perm: tuple[int, ...]) -> bool:
    """Whether a transpose keeps the order of the data, because it moves extents of 1 only, as far as is known."""
    kept = [p for p in perm if dims[p] != 1]
    return kept == sorted(kept)


def transposed_quant(quant: Quantization | None, perm: tuple[int, ...]) -> Quantization | None:
    """The quantization of a transposed value."""
    if quant is None or quant.axis is None:
        return quant
    return Quantization(quant.scale, quant.zero_point, perm.index(quant.axis))


def transposed_data(data: np.ndarray, perm: tuple[int, ...]) -> np.ndarray:
    """The array transposed, in memory of its own."""
    return once(_transposed, data, perm)


BAND = 16
"""Rows of a matrix that are transposed together: NumPy alone reads a line of the cache for each element."""


def _transposed(data: np.ndarray, perm: tuple[int, ...]) -> np.ndarray:
    source = data.transpose(perm)
    rows, columns = data.shape if perm == (1, 0) else (0, 0)
    if not data.flags.c_contiguous or rows < 2 * BAND or columns > 8 * rows:
        return np.ascontiguousarray(source)
    made = np.empty_like(source, order="C")
    for first in range(0, rows, BAND):
        made[:, first : first + BAND] = source[:, first : first + BAND]
    return made


def converted(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array in another element type."""
    return once(_converted, data, dtype)


def _converted(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return data.astype(dtype)
