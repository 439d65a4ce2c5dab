"""What is known of a value before it exists: element type, shape, quantization."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError
from .reals import to_real, to_stored

Dim = int | str | None
"""A known extent, a named symbol, or nothing known."""

Shape = tuple[Dim, ...]

MAX_RANK = 32
"""The most axes of a value: as many as every NumPy function takes."""


@dataclass(frozen=True)
class Quantization:
    """real = scale * (stored - zero_point): one of each, or (with `axis`) one for each place along that axis."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    def quantize(self, reals: Any, dtype: Any) -> np.ndarray:
        """The numbers of an integer type that stand for reals: rounded half to even, held within the type.

        InputError for what are no numbers, or no type of integers.
        """
        try:
            kind, array = np.dtype(dtype), np.asarray(reals, np.float64)
            np.iinfo(kind)
            return to_stored(array, kind, self)
        except (TypeError, ValueError) as error:
            raise InputError(f"quantize({type(reals).__name__}, {dtype!r}): {error}") from None

    def dequantize(self, stored: Any) -> np.ndarray:
        """The float32 that stored numbers stand for. InputError for what are no numbers."""
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


@dataclass(frozen=True)
class TensorType:
    """Element type, shape (None: rank unknown) and quantization of a value.

    A value whose type has `quant` stands for real numbers, whatever integers it is stored as. `dtype` None stands for a
    value that is not a tensor (a sequence, an optional); such values never get memory.
    """

    dtype: np.dtype | None
    shape: Shape | None = None
    quant: Quantization | None = None

    @staticmethod
    def of(array: Any) -> TensorType:
        """The type of a concrete array."""
        return TensorType(array.dtype, tuple(array.shape))

    @property
    def concrete(self) -> bool:
        """Whether every extent is a number and the element type is known."""
        if self.dtype is None or self.shape is None:
            return False
        for extent in self.shape:
            if type(extent) is not int:
                return False
        return True

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape of a concrete type; AssertionError otherwise."""
        assert self.concrete, f"{self} is not concrete"
        return self.shape  # type: ignore[return-value]

    @property
    def size(self) -> int:
        """Number of elements of a concrete type."""
        count = 1
        for d in self.dims:
            count *= d
        return count

    @property
    def itemsize(self) -> int:
        """Bytes of an element; AssertionError for what has none."""
        assert self.dtype is not None, f"{self} has no element type"
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of a concrete type, stored densely."""
        return self.size * self.itemsize

    def with_shape(self, shape: Shape | None) -> TensorType:
        return replace(self, shape=shape)

    def __str__(self) -> str:
        dims = "*" if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
        quant = "" if self.quant is None else f" {{{self.quant}}}"
        return f"{self.dtype}[{dims}]{quant}"


UNKNOWN = TensorType(None, None)
