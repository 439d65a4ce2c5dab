"""A program's memory: its arena, its constants, and what lies in neither."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ir import Value
from ..plan.program import ERROR, Program, Ref, Scratch, buffer_bytes, checked
from ..plan.storage import byte_strides
from .allocate import allocate, allocate_apart


class Memory:
    """Where the values of a program are: references as addresses, values as arrays.

    `arena` and `constants` are the blocks of bytes that addresses lie in, `error` the cell of ERROR. `offsets` tell
    where each buffer begins in the arena. `loose` holds values that are no arrays: strings, sequences.
    """

    def __init__(self, program: Program) -> None:
        self.arena, self._base, self.offsets = _arena(program)
        self.constants, self.addresses = _constants(program.constants)
        self.error = np.zeros(1, np.int64)
        self.loose: dict[Value, Any] = {}
        self._storage = program.storage
        self._views: dict[Value, np.ndarray] = {}

    def has(self, value: Value) -> bool:
        """Whether the value has a place in the arena."""
        return value in self._storage

    def array(self, value: Value) -> np.ndarray:
        """A NumPy view of a value's place in the arena."""
        if value not in self._views:
            at = self._storage[value]
            dims, dtype = value.type.dims, value.type.dtype
            assert dtype is not None
            strides = byte_strides(dims, dtype.itemsize, at.stride)
            offset = self.offsets[at.root] + at.offset
            self._views[value] = np.ndarray(dims, dtype, self.arena, offset, strides)
        return self._views[value]

    def held(self, value: Value) -> Any:
        """What the value is now: a constant, a view of the arena, or what is loose."""
        if value.data is not None:
            return value.data
        return self.array(value) if self.has(value) else self.loose[value]

    def address(self, arg: int | Ref) -> int:
        """What a slot of a step's record holds: numbers as they are, addresses for references."""
        if isinstance(arg, int):
            return arg
        if arg is ERROR:
            return self.error.ctypes.data
        if isinstance(arg.base, int):
            return self.addresses[arg.base] + arg.offset
        return self._base + self.offsets[arg.base] + arg.offset


def _arena(program: Program) -> tuple[np.ndarray, int, Mapping[Value | Scratch, int]]:
    """The arena, its address, and where each buffer is in it: as planned, or between guard pages."""
    assert program.arena is not None
    if checked() != "guard":
        return *allocate(max(program.arena.size, 64)), program.offsets
    memory, base, starts = allocate_apart([buffer_bytes(owner) for owner in program.offsets])
    return memory, base, dict(zip(program.offsets, starts, strict=True))


def _constants(arrays: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """The constants in one aligned block, and their addresses. The program's own arrays become views of it."""
    starts, size = [], 0
    for array in arrays:
        starts.append(size)
        size += -(-array.nbytes // 64) * 64
    if checked() == "guard":
        block, base, starts = allocate_apart([array.nbytes for array in arrays])
    else:
        block, base = allocate(max(size, 64))
    for i, (array, start) in enumerate(zip(arrays, starts, strict=True)):
        part = block[start : start + array.nbytes]
        part[:] = array.reshape(-1).view(np.uint8)
        arrays[i] = part.view(array.dtype).reshape(array.shape)
    return block, [base + start for start in starts]
