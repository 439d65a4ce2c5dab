"""Types of values: element type, shape, quantization."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from ..named import NamedTuple
from .quantization import Quantization

Dim = int | str | None
"""A known extent, a named symbol, or None for an unknown one."""

Shape = tuple[Dim, ...]

MAX_ELEMENTS = 2**48
"""The most elements of a value."""

BOOL, UINT8, INT32, INT64 = (np.dtype(name) for name in ("bool", "uint8", "int32", "int64"))
FLOAT16, FLOAT32, FLOAT64 = (np.dtype(name) for name in ("float16", "float32", "float64"))
STRING = np.dtype(object)

BFLOAT16 = np.dtype("V2")
"""Stands for bfloat16, which NumPy lacks, in plans: of values that only kernels make and read."""

MAX_RANK = 32
"""The most axes of a value: as many as every NumPy function takes."""


class Open(NamedTuple):
    """An extent of an input, or a number that an input holds, which only a run knows: from `least` to `most` by a
    `step`, what all open ones of a `group` have in common and `more`.
    """

    least: int
    most: int
    more: int
    group: int = 0
    step: int = 1


MOST_LENGTH = 1 << 24
"""The limit of extents that a run decides: float32 holds those below without rounding."""

LENGTHS = ("open extents", "other open extents")
"""The inputs of a plan, int64, that hold what the open extents of each group have in common."""


def open_axes(shape: Sequence[int | Open]) -> list[tuple[int, Open]]:
    """The open extents of a shape, with their axes."""
    return [(axis, d) for axis, d in enumerate(shape) if isinstance(d, Open)]


def is_open(shapes: Iterable[Sequence[int | Open]]) -> bool:
    """Whether any extent of these shapes is open."""
    return any(isinstance(d, Open) for shape in shapes for d in shape)


class TensorType:
    """Element type, shape (None: rank unknown) and quantization of a value. It never changes.

    A value whose type has `quant` stands for real numbers, whatever integers it is stored as. `dtype` None stands for a
    value that is not a tensor (a sequence, an optional); such values never get memory. `concrete`: whether every extent
    is a number and the element type is known.
    """

    __slots__ = ("concrete", "dtype", "quant", "shape")

    def __init__(self, dtype: np.dtype | None, shape: Shape | None = None, quant: Quantization | None = None) -> None:
        self.dtype, self.shape, self.quant = dtype, shape, quant
        self.concrete = dtype is not None and shape is not None
        for extent in shape or ():
            if type(extent) is not int:
                self.concrete = False
                break

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorType):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype and self.quant == other.quant

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape, self.quant))

    def __repr__(self) -> str:
        return f"TensorType(dtype={self.dtype!r}, shape={self.shape!r}, quant={self.quant!r})"

    @staticmethod
    def of(array: Any) -> TensorType:
        """The type of a concrete array."""
        return TensorType(array.dtype, tuple(array.shape))

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
    def element(self) -> np.dtype:
        """The element type where it is known; AssertionError otherwise."""
        assert self.dtype is not None, f"{self} has no element type"
        return self.dtype

    @property
    def quantization(self) -> Quantization:
        """The quantization of a type that has one; AssertionError otherwise."""
        assert self.quant is not None, f"{self} is not quantized"
        return self.quant

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.element.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of a concrete type, stored densely."""
        return self.size * self.itemsize

    def with_shape(self, shape: Shape | None) -> TensorType:
        return TensorType(self.dtype, shape, self.quant)

    def __str__(self) -> str:
        if self == UNKNOWN:
            return "?"
        dims = "*" if self.shape is None else ",".join("?" if d is None else str(d) for d in self.shape)
        quant = "" if self.quant is None else f" {{{self.quant}}}"
        name = "bfloat16" if self.dtype == BFLOAT16 else self.dtype or "?"
        return f"{name}[{dims}]{quant}"


UNKNOWN = TensorType(None, None)


class Kind(NamedTuple):
    """`form` is "tensor" (of `type`), "sequence" (a list, each of whose items is an `item`) or "optional" (an `item`,
    or None). `element`: the name of a tensor's element type when NumPy lacks it.
    """

    form: str
    type: TensorType = UNKNOWN
    element: str = ""
    item: Kind | None = None

    @property
    def tensor(self) -> Kind:
        """The tensors that it holds in the end."""
        return self if self.item is None else self.item.tensor

    def __str__(self) -> str:
        if self.form == "sequence":
            return f"sequence of {self.item}"
        if self.form == "optional":
            return f"optional {self.item}"
        return f"{self.element}{str(self.type).removeprefix(str(self.type.dtype))}" if self.element else str(self.type)
