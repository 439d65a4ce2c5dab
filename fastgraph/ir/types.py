"""What is known of a value before it exists: element type, shape, quantization."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from .quantization import Quantization

Dim = int | str | None
"""A known extent, a named symbol, or nothing known."""

Shape = tuple[Dim, ...]

MAX_RANK = 32
"""The most axes of a value: as many as every NumPy function takes."""


class TensorType(NamedTuple):
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
        return prod(self.dims)

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
        return TensorType(self.dtype, shape, self.quant)

    def __str__(self) -> str:
        dims = "*" if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
        quant = "" if self.quant is None else f" {{{self.quant}}}"
        return f"{self.dtype}[{dims}]{quant}"


UNKNOWN = TensorType(None, None)
