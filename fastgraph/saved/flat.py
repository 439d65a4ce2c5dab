"""A plan as data that needs no graph: words of records, the addresses among them, steps, and where values lie.

A word that is an address is stored as an offset from a base, which a load knows: of the error cell, of a buffer of the
arena, of a constant, of a kernel, or of a table (words that a record refers to). `Bases` numbers them in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..named import NamedTuple
from .container import ELEMENTS, MOST_AXES, Container, whole


class View(NamedTuple):
    """An array in a buffer of the arena; strides in bytes."""

    buffer: int
    offset: int
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def read(entry: Sequence[Any]) -> View:
        buffer, offset, dtype, dims, strides = entry
        if dtype not in ELEMENTS or len(dims) > MOST_AXES:
            raise ValueError(dtype)
        return View(whole(buffer), whole(offset), dtype, tuple(map(whole, dims)), tuple(map(whole, strides)))

    def within(self, sizes: Sequence[int]) -> bool:
        """Whether it lies in its buffer, no element twice. An empty one may have none."""
        if 0 in self.dims:
            return len(self.dims) == len(self.strides)
        size = at = np.dtype(self.dtype).itemsize
        for stride, extent in sorted(zip(self.strides, self.dims, strict=True)):
            if extent > 1 and stride < at:
                return False
            at = max(at, stride * extent)
            size += (extent - 1) * stride
        return self.buffer < len(sizes) and self.offset + size <= sizes[self.buffer]

    def of(self, arena: np.ndarray, offsets: Sequence[int]) -> np.ndarray:
        """The array, given the arena and the offset of each buffer in it."""
        if 0 in self.dims:
            return np.empty(self.dims, self.dtype)
        return np.ndarray(self.dims, self.dtype, arena, offsets[self.buffer] + self.offset, self.strides)


class Part(NamedTuple):
    """Steps that one native call runs. `commit`: the step from which on it can't be stopped. `refusal`: the message for
    a number out of range that it may read, or "".
    """

    first: int
    steps: int
    commit: int
    refusal: str


class Flat(NamedTuple):
    """A plan. Arrays are int64: `buffers` [n, 2], offset in the arena and size; `words`; `addresses` [n, 2], the number
    of a word and of its base; `tables`, the first word of each; `steps` [n, 4], kernel (-1: a jump), first word of its
    record, work, number of its part. `kernels`: their numbers in the image of code.

    `inputs`, `states`: by name or with first values, where they lie; `outputs`: likewise, or the constant that it is.
    `cuts`: extents of outputs that a run finds: number of the output, axis, where the extent lies, an int64.
    """

    size: int
    buffers: np.ndarray
    words: np.ndarray
    addresses: np.ndarray
    tables: np.ndarray
    steps: np.ndarray
    parts: list[Part]
    constants: list[np.ndarray]
    kernels: list[int]
    inputs: list[tuple[str, View]]
    outputs: list[tuple[str, View | np.ndarray]]
    states: list[tuple[View, np.ndarray]]
    cuts: list[tuple[int, int, View]]

    def based(self, bases: np.ndarray) -> np.ndarray:
        """The words with their addresses, given the address of each base; 0 is added to the first of a table's."""
        words = np.append(self.words, 0)  # an address of its own, also where there are no words
        known = np.append(bases, words.ctypes.data + 8 * self.tables)
        words[self.addresses[:, 0]] += known[self.addresses[:, 1]]
        return words

    def words_in(self, buffers: set[int]) -> dict[int, np.ndarray]:
        """The numbers of the words that are addresses in buffers, for each."""
        return {buffer: self.addresses[self.addresses[:, 1] == 1 + buffer, 0] for buffer in buffers}


_ARRAYS = "buffers", "words", "addresses", "tables", "steps"


def entry_of(flat: Flat, number: Callable[[np.ndarray], int]) -> dict[str, Any]:
    """The plan for the directory of a file; `number(array)` keeps an array and gives its number there."""
    arrays = {name: number(getattr(flat, name)) for name in _ARRAYS}
    outputs = [[name, at if isinstance(at, View) else number(at)] for name, at in flat.outputs]
    return {
        **arrays, "arena": flat.size, "parts": flat.parts, "constants": [number(array) for array in flat.constants],
        "kernels": flat.kernels, "inputs": flat.inputs, "outputs": outputs,
        "states": [[view, number(initial)] for view, initial in flat.states], "cuts": flat.cuts,
    }  # fmt: skip


def read(entry: dict[str, Any], file: Container) -> Flat:
    """The plan of a directory's entry, checked: every part lies where it may. ModelError when it is damaged."""
    with file.reading("a plan"):
        flat = Flat(
            whole(entry["arena"]),
            file.array(entry["buffers"]),
            file.array(entry["words"]),
            file.array(entry["addresses"]),
            file.array(entry["tables"]),
            file.array(entry["steps"]),
            [Part(whole(first), whole(steps), whole(commit), str(why)) for first, steps, commit, why in entry["parts"]],
            [file.array(number) for number in entry["constants"]],
            list(map(whole, entry["kernels"])),
            [(name, View.read(view)) for name, view in entry["inputs"]],
            [(name, View.read(at) if isinstance(at, list) else file.array(at)) for name, at in entry["outputs"]],
            [(View.read(view), file.array(initial)) for view, initial in entry["states"]],
            [(whole(output), whole(axis), View.read(extent)) for output, axis, extent in entry["cuts"]],
        )
        if not _sound(flat):
            raise file.damaged("a plan refers to what is not there")
    return flat


def _sound(flat: Flat) -> bool:
    """Whether all numbers of a plan are within what they count."""
    tables = flat.buffers, flat.words, flat.addresses, flat.tables, flat.steps
    forms = [(array.dtype.name, *array.shape[1:]) for array in tables]
    if forms != [("int64", 2), ("int64",), ("int64", 2), ("int64",), ("int64", 4)] or not all(a.ndim for a in tables):
        return False
    sizes = flat.buffers[:, 1].tolist()
    views = [view for _, view in flat.inputs] + [at for _, at in flat.outputs if isinstance(at, View)]
    views += [view for view, _ in flat.states] + [extent for _, _, extent in flat.cuts]
    size = max(flat.size, 1) + 1
    bases = 1 + len(sizes) + len(flat.constants) + len(flat.kernels) + len(flat.tables)
    return (
        _inside(flat.buffers, 0, size)
        and _inside(flat.buffers.sum(1), 0, size)
        and _inside(flat.addresses[:, 0], 0, len(flat.words))
        and _inside(np.diff(flat.addresses[:, 0]), 1, len(flat.words))
        and _inside(flat.addresses[:, 1], 0, bases)
        and _inside(flat.tables, 0, len(flat.words) + 1)
        and _inside(flat.steps[:, 0], -1, len(flat.kernels))
        and _inside(flat.steps[:, 1], 0, len(flat.words) + 1)
        and _inside(flat.steps[:, 3], 0, len(flat.steps) + 1)
        and _follow(flat)
        and all(view.within(sizes) for view in views)
        and all(initial.shape == view.dims for view, initial in flat.states)
        and all(_cuts(flat, *cut) for cut in flat.cuts)
    )


def _cuts(flat: Flat, output: int, axis: int, extent: View) -> bool:
    """Whether an output has this axis, and its extent is a number."""
    if output >= len(flat.outputs) or (extent.dtype, extent.dims) != ("i8", ()):
        return False
    _, at = flat.outputs[output]
    return axis < (len(at.dims) if isinstance(at, View) else at.ndim)


def _follow(flat: Flat) -> bool:
    """Whether the parts have all steps in turn, and jumps stay in their parts. None goes into steps done at once."""
    end = 0
    for first, count, commit, _ in flat.parts:
        if first != end or commit > count:
            return False
        end += count
        steps = flat.steps[first:end]
        before, part = steps[:-1, 3], steps[1:, 3]
        inner = set((np.flatnonzero((before > 0) & (part >= before)) + 1).tolist())
        for i in np.flatnonzero(steps[:, 0] < 0).tolist():
            by = flat.words[steps[i, 1] :][2:3].tolist()
            if not by or not by[0] or not 0 <= i + by[0] <= count or i + by[0] in inner:
                return False
    return end == len(flat.steps)


def _inside(numbers: np.ndarray, low: int, high: int) -> bool:
    return not numbers.size or low <= int(numbers.min()) and int(numbers.max()) < high
