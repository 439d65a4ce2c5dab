"""Aligned, zeroed memory that may be read a little beyond its end, or has guard pages behind it."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Sequence

import numpy as np

from ..named import NamedTuple
from ..room import SLACK, need

_HUGE = 2 << 20
_MADV_HUGEPAGE = 14


class Allocation(NamedTuple):
    """Memory: a uint8 array and the address of its first byte."""

    bytes: np.ndarray
    address: int


def allocate(nbytes: int, align: int = 4096) -> Allocation:
    """A zeroed block.

    The address is a multiple of `align` (a power of two). The memory lives as long as the array or a view of
    it; at least SLACK bytes after it may be read. Large blocks ask Linux for huge pages. MemoryError when they are
    more than is free.
    """
    if align < 1 or align & (align - 1):
        raise ValueError(f"align={align} is not a power of two")
    large = nbytes >= 2 * _HUGE
    align = max(align, _HUGE) if large else align
    need(nbytes)
    raw = np.zeros(nbytes + SLACK + align, np.uint8)
    start = -raw.ctypes.data % align
    address = raw.ctypes.data + start
    if large and sys.platform == "linux":
        _advise_huge(address, nbytes)
    return Allocation(raw[start : start + nbytes], address)


def _advise_huge(address: int, nbytes: int) -> None:
    """Ask for huge pages. Only a hint: where the kernel has none, it is just slower."""
    try:
        madvise = ctypes.CDLL(None).madvise
    except (AttributeError, OSError):
        return
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    madvise(address, nbytes // _HUGE * _HUGE, _MADV_HUGEPAGE)


def allocate_apart(sizes: Sequence[int]) -> tuple[np.ndarray, int, list[int]]:
    """Zeroed blocks with guard pages between them: (all memory, its address, the offset of each block).

    A block's address is a multiple of 64; behind it are SLACK bytes, and less than 64 more, up to a protected page.
    Windows gets unprotected memory with the same layout. MemoryError where there is no room for them.
    """
    page, at, starts = mmap.PAGESIZE, 0, []
    for size in sizes:
        at += page
        room = -(-(size + SLACK) // page) * page
        starts.append((at + room - SLACK - size) // 64 * 64)
        at += room
    if sys.platform == "win32":
        memory = np.zeros(at + page, np.uint8)
        return memory, memory.ctypes.data, starts
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        memory = np.frombuffer(mmap.mmap(-1, at + page, flags), np.uint8)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"no room for {at} bytes: {error}") from None
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    ends = [0, *(-(-(start + size + SLACK) // page) * page for start, size in zip(starts, sizes, strict=True))]
    for end in ends:
        if protect(memory.ctypes.data + end, page, 0):
            raise OSError("the system protects no pages")
    return memory, memory.ctypes.data, starts
