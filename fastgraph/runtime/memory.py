"""The memory of a program: its arena, its constants, and values that are no arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..freedoms import checked
from ..ir import Value
from ..ir.weights import Weights
from ..plan.program import ERROR, Program, Ref, Scratch, buffer_bytes
from ..plan.storage import byte_strides
from .allocate import Allocation, allocate, allocate_apart
from .runnable import ConstantMemory


class Memory:
    """Resolves a program's references: to addresses for kernels, to arrays for values.

    `arena` and `constants`: the bytes that addresses point into; `error`: the cell of ERROR; `offsets`: of each buffer
    in the arena; `loose`: values that are no arrays (strings, sequences); `common`: constants that other plans of the
    model may share.

    The arena is the start of `block`, as it is, or a new zeroed block.
    """

    def __init__(self, program: Program, constants: ConstantMemory, block: Allocation | None = None) -> None:
        self.arena, self._base, self.offsets = _arena(program, block)
        self.constants, self.common, self.addresses = constants
        self.error = np.zeros(1, np.int64)
        self.loose: dict[Value, Any] = {}
        self._storage = program.storage
        self._views: dict[Value, np.ndarray] = {}

    def has(self, value: Value) -> bool:
        """Whether the value has a buffer in the arena."""
        return value in self._storage

    def array(self, value: Value) -> np.ndarray:
        """A NumPy view of a value's buffer in the arena; an empty value has no buffer."""
        if value not in self._views:
            at = self._storage[value]
            dims, dtype = value.type.dims, value.type.element
            if 0 in dims:  # a part of a value may begin behind the arena's end
                return self._views.setdefault(value, np.empty(dims, dtype))
            strides = byte_strides(dims, dtype.itemsize, at.stride)
            offset = self.offsets[at.root] + at.offset
            self._views[value] = np.ndarray(dims, dtype, self.arena, offset, strides)
        return self._views[value]

    def held(self, value: Value) -> Any:
        """The value's current content: a constant, a view of the arena, or a loose value. InputError when it was not
        fed.
        """
        if value.data is not None:
            return value.data
        if self.has(value):
            return self.array(value)
        if value not in self.loose:
            raise InputError(f"input {value.name!r} of the plan in use was not fed: its values are fed by run alone")
        return self.loose[value]

    def address(self, arg: int | Ref) -> int:
        """A slot of a step's record: numbers as they are, references as addresses."""
        if isinstance(arg, int):
            return arg
        base, offset = arg
        if not isinstance(base, int):
            return self._base + self.offsets[base] + offset
        return self.error.ctypes.data if arg == ERROR else self.addresses[base] + offset


def arena_bytes(program: Program) -> int:
    """The size of the block that a program's arena needs."""
    return max(program.arena.size, 64)


def _arena(program: Program, block: Allocation | None) -> tuple[np.ndarray, int, Mapping[Value | Scratch, int]]:
    """The arena, its address, and the offset of each buffer: as planned, or with guard pages between buffers."""
    size = arena_bytes(program)
    if checked() != "guard":
        memory, base = block or allocate(size)
        return memory[:size], base, program.offsets
    memory, base, starts = allocate_apart([buffer_bytes(owner) for owner in program.offsets])
    return memory, base, dict(zip(program.offsets, starts, strict=True))


def place_constants(program: Program, weights: Weights | None) -> ConstantMemory:
    """Give a program's constants memory; its arrays become views of it.

    Constants that are kept across plans get a block of their own each; those that other plans have are shared with
    them.
    """
    if program.room is not None and program.room.blocks:
        own, *more = program.room.blocks
        return ConstantMemory(own, more, _addresses(program.constants))
    arrays, lasting = program.constants, program.lasting if weights is not None else {}
    placed = {i for i, key in lasting.items() if weights is not None and weights.find(key) is arrays[i]}
    own = _placed(arrays, [i for i in range(len(arrays)) if i not in lasting])
    program.lasting = {}
    new = [i for i in lasting if i not in placed]
    if new:
        _placed(arrays, new)
    for i in new:
        assert weights is not None
        weights.keep(lasting[i], arrays[i])
    return ConstantMemory(own, [arrays[i] for i in lasting], _addresses(arrays))


def _addresses(arrays: Sequence[np.ndarray]) -> list[int]:
    return [array.__array_interface__["data"][0] for array in arrays]


def _placed(arrays: list[np.ndarray], chosen: Sequence[int]) -> np.ndarray:
    """An aligned block with copies of the chosen arrays, which become views of it."""
    starts, size = [], 0
    for i in chosen:
        starts.append(size)
        size += -(-arrays[i].nbytes // 64) * 64
    if checked() == "guard":
        block, _, starts = allocate_apart([arrays[i].nbytes for i in chosen])
    else:
        block, _ = allocate(max(size, 64), 64 if size < 4096 else 4096)
    for i, start in zip(chosen, starts, strict=True):
        part = block[start : start + arrays[i].nbytes]
        part[:] = arrays[i].reshape(-1).view(np.uint8)
        arrays[i] = part.view(arrays[i].dtype).reshape(arrays[i].shape)
    return block
