"""Memory for the constants of one plan, in which they are made."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ..room import SLACK

_ALIGN = 64


class Constants:
    """Arrays one after the other, each at a multiple of 64 bytes, and zeros up to the next and for SLACK bytes.

    `blocks`: the memory that they take, uint8. `expected`: how many bytes they are thought to take together; what is
    not touched of a large block takes no memory.
    """

    def __init__(self, expected: int) -> None:
        self.blocks: list[np.ndarray] = []
        self._expected = expected
        self._block, self._used = np.empty(0, np.uint8), 0
        self._given = self._block

    def put(self, array: np.ndarray) -> np.ndarray:
        """A copy of the array, C-contiguous; the array itself when it is the one that `empty` gave last."""
        if array is not self._given:
            self.empty(array.shape, array.dtype)[...] = array
        return self._given

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array to be filled and put."""
        nbytes = prod(shape) * np.dtype(dtype).itemsize
        size = -(-nbytes // _ALIGN) * _ALIGN
        if self._used + size + SLACK > len(self._block):
            self._begin(max(size, self._expected // (4 if self.blocks else 1)))
        start, self._used = self._used, self._used + size
        self._block[start + nbytes : self._used + SLACK] = 0
        self.blocks[-1] = self._block[: self._used]
        self._given = self._block[start : start + nbytes].view(dtype).reshape(shape)
        return self._given

    def _begin(self, size: int) -> None:
        raw = np.empty(_ALIGN + size + SLACK, np.uint8)
        self._block, self._used = raw[-raw.__array_interface__["data"][0] % _ALIGN :], 0
        self.blocks.append(self._block[:0])
