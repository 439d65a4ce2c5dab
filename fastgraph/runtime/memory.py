"""Aligned, zeroed memory with room to read past its end."""

from __future__ import annotations

import ctypes
import sys

import numpy as np

from ..room import need

SLACK = 128
"""Bytes after a block that may be read: two of the widest vectors."""

_HUGE = 2 << 20
_MADV_HUGEPAGE = 14


def allocate(nbytes: int, align: int = 4096) -> tuple[np.ndarray, int]:
    """A zeroed block: (its uint8 array, the address of its first byte).

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
    return raw[start : start + nbytes], address


def _advise_huge(address: int, nbytes: int) -> None:
    """A hint only: that it fails (no huge pages in this kernel) changes nothing but speed."""
    try:
        madvise = ctypes.CDLL(None).madvise
    except (AttributeError, OSError):
        return
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    madvise(address, nbytes // _HUGE * _HUGE, _MADV_HUGEPAGE)
