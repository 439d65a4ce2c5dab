"""Images of linked code, in executable pages of this process."""

from __future__ import annotations

import ctypes
import mmap
import struct
from typing import Any

from ..named import NamedTuple

_FLOAT_FUNCTIONS = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 exp10 expm1 fabs"
    " fdim floor fma fmax fmin fmod frexp hypot ldexp lgamma log log10 log1p log2 modf nearbyint nextafter"
    " pow remainder rint round roundeven sin sincos sinh sqrt tan tanh tgamma trunc"
).split()
ALLOWED = frozenset(
    ["memcpy", "memmove", "memset", "memcmp", "bzero", "_GLOBAL_OFFSET_TABLE_"]
    + [name + suffix for name in _FLOAT_FUNCTIONS for suffix in ("", "f")]
)
"""Allowed undefined symbols: the C library's memory and math functions, which every process has."""

JUMP = b"\xff\x25\x02\x00\x00\x00\x90\x90"
"""A stub's jump to the address in the eight bytes after it, for functions that may be far away."""
STUB = 16
BLANK = JUMP + bytes(8)
"""A stub before it is known where its function is."""

_pages: list[Any] = []
"""Linked code is never unloaded."""


class Foreign(Exception):
    """An object that this loader can't load; the text says why."""


class Image(NamedTuple):
    """Linked code that may lie anywhere: `code` begins with a stub for each of `functions`, of the C library; `symbols`
    are offsets, -1 where the object does not define it.
    """

    code: bytes
    functions: tuple[str, ...]
    symbols: dict[str, int]


def place(image: Image) -> int:
    """The address of the image, in executable pages of its own that are never freed.

    Foreign when this process lacks one of its functions, or it has not as many stubs; OSError when the system gives no
    executable pages.
    """
    count = len(image.functions)
    if not image.code.startswith(BLANK * count) or image.code.startswith(BLANK, count * STUB):
        raise Foreign(f"it does not begin with stubs of {count} functions")
    addresses = [_function(name) for name in image.functions]
    pages = mmap.mmap(-1, max(len(image.code), 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages[: len(image.code)] = image.code
    pages[: len(addresses) * STUB] = b"".join(JUMP + struct.pack("<Q", address) for address in addresses)
    base = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    _make_executable(base, len(pages))
    _pages.append(pages)
    return base


def _function(name: str) -> int:
    """The address of a function of the C library."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise Foreign(f"it needs {name}, which this process has not loaded") from None


def _make_executable(start: int, size: int) -> None:
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if protect(start, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "the system lets no pages be executed that were written before")
