"""Memory for results: that of earlier ones which nobody holds any more. Touching new memory costs more than copying."""

from __future__ import annotations

import sys

import numpy as np

from ..room import SLACK
from .runnable import LEAST

ALIGN = 64


def _holders(blocks: list[np.ndarray], i: int) -> int:
    return sys.getrefcount(blocks[i])


def _measured() -> int:
    """`_holders` of a block that only its list holds; -1 where Python does not count references reliably."""
    counts = getattr(sys, "_is_gil_enabled", lambda: True)() and hasattr(sys, "getrefcount")
    return _holders([np.empty(1, np.uint8)], 0) if counts else -1


class Reuse:
    """Copies of a model's outputs, in memory of earlier results if all arrays on it are gone: the last run's, which is
    in the cache, or the one's before.

    The blocks of two runs are kept: a caller often holds the last results until there are new ones.
    """

    def __init__(self) -> None:
        self._free = _measured()
        self._now: list[np.ndarray] = []
        self._last: list[np.ndarray] = []
        self._before: list[np.ndarray] = []

    def begin(self) -> None:
        """A run's results are about to be copied."""
        self._before, self._last, self._now = self._last or self._before, self._now, []

    def copy(self, array: np.ndarray) -> np.ndarray:
        """A dense copy that is the caller's own."""
        if array.nbytes < LEAST or array.dtype.hasobject or self._free < 0:
            return np.array(array, order="C")
        found = self.room(array)
        found[...] = array
        return found

    def room(self, like: np.ndarray) -> np.ndarray:
        """A dense array of the shape and type of another, on a line of the cache; kernels may read beyond its end."""
        block = self._block(like.nbytes + ALIGN + SLACK)
        return np.ndarray(like.shape, like.dtype, block, -block.__array_interface__["data"][0] % ALIGN)

    def _block(self, nbytes: int) -> np.ndarray:
        """A block that nobody else reads, of at least so many bytes and less than twice as many."""
        for blocks in (self._last, self._before):
            for i in range(len(blocks)):
                if nbytes <= blocks[i].nbytes < 2 * nbytes and _holders(blocks, i) == self._free:
                    self._now.append(blocks.pop(i))
                    return self._now[-1]
        room = max(4096, 1 << (nbytes.bit_length() - 3))
        self._now.append(np.empty(-(-nbytes // room) * room, np.uint8))
        return self._now[-1]
