"""Blocking wait and wake-up as C functions that native code calls: one row per platform."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from ..named import NamedTuple


class System(NamedTuple):
    """Addresses of C functions, and how to make a semaphore with count 0.

    Native code calls `wait(semaphore, -1)` until it returns 0, which is when it took a post,
    `post(semaphore, 1, 0)` and `give_way()`. A function that takes fewer arguments ignores the
    rest, as every supported calling convention passes them in registers. `create(memory)` returns the
    semaphore; it may use the 64 bytes at `memory`, which outlive it.

    Where they are not 0, `cpu()` is the CPU of the calling thread, `ask(thread, bytes, cpus)` and
    `bind(thread, bytes, cpus)` return 0 when they have read or set a thread's CPUs, a bit for each.
    """

    wait: int
    post: int
    give_way: int
    create: Callable[[int], int]
    cpu: int = 0
    ask: int = 0
    bind: int = 0


@cache
def system() -> System | None:
    """This platform's row; None where there is none: then everything runs on one thread."""
    try:
        if sys.platform == "win32":
            return _windows()
        return _darwin() if sys.platform == "darwin" else _posix()
    except (AttributeError, OSError):
        return None


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _posix() -> System:
    libc = ctypes.CDLL(None)
    init = libc.sem_init
    init.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint)

    def create(memory: int) -> int:
        if init(memory, 0, 0) != 0:
            raise OSError("sem_init failed")
        return memory

    wait, post = _address(libc.sem_wait), _address(libc.sem_post)
    return System(wait, post, _address(libc.sched_yield), create, *_cpus(libc))


def _cpus(libc: ctypes.CDLL) -> tuple[int, ...]:
    """`cpu`, `ask` and `bind`, where threads have numbers that these take."""
    names = "sched_getcpu", "sched_getaffinity", "sched_setaffinity"
    known = sys.platform == "linux" and all(hasattr(libc, name) for name in names)
    return tuple(_address(getattr(libc, name)) for name in names) if known else ()


def _darwin() -> System:
    """Unnamed POSIX semaphores don't exist there; dispatch semaphores do."""
    libc = ctypes.CDLL(None)
    make = libc.dispatch_semaphore_create
    make.argtypes, make.restype = (ctypes.c_ssize_t,), ctypes.c_void_p

    def create(memory: int) -> int:
        semaphore = make(0)
        if not semaphore:
            raise OSError("dispatch_semaphore_create failed")
        return int(semaphore)

    wait = _address(libc.dispatch_semaphore_wait)
    return System(wait, _address(libc.dispatch_semaphore_signal), _address(libc.sched_yield), create)


def _windows() -> System:
    kernel32 = ctypes.CDLL("kernel32")
    make = kernel32.CreateSemaphoreW
    make.argtypes = (ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p)
    make.restype = ctypes.c_void_p

    def create(memory: int) -> int:
        semaphore = make(None, 0, 0x7FFFFFFF, None)
        if not semaphore:
            raise OSError("CreateSemaphoreW failed")
        return int(semaphore)

    wait = _address(kernel32.WaitForSingleObject)
    return System(wait, _address(kernel32.ReleaseSemaphore), _address(kernel32.SwitchToThread), create)
