"""The bytes that constants are stored in: inside the FlatBuffer, or behind it in files above 2 GB."""

from __future__ import annotations

import numpy as np

from ...errors import ModelError
from .wire import Table

EMPTY = np.empty(0, np.uint8)


def outside(table: Table, offset: int, size: int, where: str) -> np.ndarray:
    """`size` bytes of the file from `offset` on. ModelError when they are not in it."""
    data = table.wire.data
    if offset + size > len(data):
        raise ModelError(
            f"{where}: expected its {size} bytes from {offset} on within the file's {len(data)} bytes, "
            "found its end; the file was cut short, or the part behind the FlatBuffer is missing"
        )
    return np.frombuffer(data, np.uint8, size, offset)


def buffer(buffers: object, index: int, where: str) -> np.ndarray:
    """The bytes of buffer `index` as a view of the file; none for a tensor that nothing is stored for."""
    count = len(buffers)  # type: ignore[arg-type]
    if index >= count:
        if index == 0:
            return EMPTY  # a model without constants may leave out even the empty buffer
        raise ModelError(
            f"{where}: expected a buffer from 0 to {count - 1}, found {index}; the file was not written correctly"
        )
    table: Table = buffers[index]  # type: ignore[index]
    if "offset" in table.fields and table.offset > 1:
        return outside(table, table.offset, table.size, where)
    return table.array("data")


def custom_options(operator: Table, where: str) -> bytes:
    """The options of a custom operator, wherever the file keeps them."""
    if operator.large_custom_options_offset > 1:
        return outside(
            operator, operator.large_custom_options_offset, operator.large_custom_options_size, where
        ).tobytes()
    return operator.array("custom_options").tobytes()
