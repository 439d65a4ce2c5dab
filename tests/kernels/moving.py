"""Perform a planned move over guarded memory."""

from typing import Any

import numpy as np

from fastgraph.kernels.core.table import row
from fastgraph.kernels.move.copy_plan import Move
from fastgraph.kernels.move.resize_tables import ResizeTable
from tests.kernels.harness import compiled, guarded


def perform(
    move: Move,
    x: np.ndarray,
    out: tuple[int, ...],
    tier: Any,
    threads: int = 1,
    offset: int = 0,
    **pointers: np.ndarray,
) -> np.ndarray:
    """The array of shape `out` that the move writes, reading x; `pointers`: arrays of the record's other pointers.

    Fails when a byte outside of the result was written. Pointer arrays are passed as they are, so the kernel's writes
    to them are seen.
    """
    return written(move, x, np.zeros(out, x.dtype), tier, threads, offset, **pointers)


def written(
    move: Move, x: np.ndarray, over: np.ndarray, tier: Any, threads: int = 1, offset: int = 0, **pointers: np.ndarray
) -> np.ndarray:
    """The same, over a copy of an array."""
    table = row(move.kernel)
    memory, y = guarded(over, offset)
    before = memory.copy()
    _, source = guarded(x, offset)
    keep = {name: np.ascontiguousarray(value) for name, value in move.args.items() if isinstance(value, np.ndarray)}
    keep |= pointers
    values = move.args | {name: array.ctypes.data for name, array in keep.items()}
    values |= {"dst": y.ctypes.data + move.dst_offset, "src": source.ctypes.data + move.src_offset}
    record = np.array(table.args.filled(**values), np.int64)
    call = compiled(table.make(), tuple(sorted(move.params.items())), tier)
    for thread in range(threads):
        call(record.ctypes.data, thread, threads)
    start = y.ctypes.data - memory.ctypes.data
    for part in (slice(0, start), slice(start + y.nbytes, None)):
        assert (memory[part] == before[part]).all(), "the kernel wrote outside of its result"
    return y


def numbered(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array whose elements differ as far as the type allows."""
    count = int(np.prod(shape))
    if np.dtype(dtype).kind == "c":
        return (np.arange(count) + 1j).astype(dtype).reshape(shape)
    numbers = np.arange(1, count + 1)
    return (numbers % 251 if np.dtype(dtype).itemsize == 1 else numbers).astype(dtype).reshape(shape)


def weighted(x: np.ndarray, axis: int, table: ResizeTable, extrapolation: float = 0.0) -> np.ndarray:
    """What a table of linear or cubic resize says of x along `axis`."""
    y = (np.moveaxis(x, axis, -1)[..., table.index] * table.weight).sum(axis=-1, dtype=np.float64)
    return np.moveaxis(np.where(table.outside, extrapolation, y), -1, axis).astype(x.dtype)
