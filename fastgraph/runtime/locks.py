"""Locks that work after a fork: a child has only the thread that forked, and so nobody who releases the others' locks.

Those that guard a library's own state, which a child could never mend, are waited for before a fork.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_renewed: weakref.WeakSet[Any] = weakref.WeakSet()
_waited: list[Any] = []


_PATIENCE = 20.0
"""Seconds that a fork waits: who holds such a lock may need what the forking thread holds."""


def lock(wait: bool = False) -> Any:
    """A threading.RLock that is free in a forked child, unless it is held by the very thread that forks.

    wait: a fork waits until nobody else holds it. For module-level locks, under which nothing forks or waits for long.
    """
    made = threading.RLock()
    if wait:
        _waited.append(made)
    else:
        _renewed.add(made)
    return made


def held(some: Any) -> bool:
    """Whether this thread holds a lock, as the handler of a signal may find."""
    return bool(some._is_owned())


def _before() -> None:
    for each in _waited:
        each.acquire(timeout=_PATIENCE)


def _after() -> None:
    for each in _waited:
        if held(each):
            each.release()


def _in_child() -> None:
    _after()
    for each in [*_renewed, *_waited]:
        if not held(each):
            each._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
