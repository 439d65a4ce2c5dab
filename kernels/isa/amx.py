"""Asks Linux for AMX's tile registers: a process may use them only with permission.

The tier `amx` is usable where the CPU has the flags and `permitted()` is true.
"""

from __future__ import annotations

import platform
import sys
from functools import cache

_ARCH_PRCTL = 158
_GET_PERMISSION, _ASK_PERMISSION = 0x1022, 0x1023
_TILE_DATA = 18
"""The processor state component that holds the tiles' contents."""


@cache
def permitted() -> bool:
    """Whether this process may use tile registers; the first call asks for them (Linux's arch_prctl(2)).

    The permission is for all threads, those that run already too, and is inherited by forked children. It is refused
    by old kernels, by sandboxes, and where a thread has a signal stack too small for the larger frames. Only asked
    on a CPU that has the tiles: elsewhere a refusal is certain.
    """
    machine = platform.machine().lower() in ("x86_64", "amd64") and sys.maxsize > 1 << 32
    if not sys.platform.startswith("linux") or not machine:
        return False
    import ctypes

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p)
    if syscall(_ARCH_PRCTL, _ASK_PERMISSION, _TILE_DATA):
        return False
    granted = ctypes.c_uint64()
    found = syscall(_ARCH_PRCTL, _GET_PERMISSION, ctypes.addressof(granted))
    return found == 0 and bool(granted.value >> _TILE_DATA & 1)
