"""Locks in processes that fork: a child has only the thread that forked. Locks of other threads would stay held, and
their work would stay unfinished.
"""

from __future__ import annotations

import os
import time
import weakref
from _thread import RLock, get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import _bootstrap  # type: ignore[attr-defined]
from typing import Any

_PATIENCE = 100.0
"""Seconds that a fork waits for each lock: its holder may itself wait for the forking thread."""

_OURS = __name__.partition(".")[0]

_renewed: weakref.WeakSet[Any] = weakref.WeakSet()
_undisturbed: list[Any] = []
_gate = RLock()


def lock() -> Any:
    """A threading.RLock that is free in a forked child, unless the thread that forks holds it."""
    made = RLock()
    _renewed.add(made)
    return made


def held(some: Any) -> bool:
    """Whether this thread holds a lock, as the handler of a signal may find."""
    return bool(some._is_owned())


@contextmanager
def undisturbed() -> Iterator[None]:
    """No other thread forks inside: for imports, and calls of libraries with state of their own."""
    if any(held(each) for each in list(_undisturbed)):
        yield
        return
    mine = RLock()
    with mine:
        with _gate:
            _undisturbed.append(mine)
        try:
            yield
        finally:
            _undisturbed.remove(mine)


def _before() -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        _gate.acquire(timeout=_PATIENCE)
        for each in list(_undisturbed):
            each.acquire(timeout=_PATIENCE)
        if time.monotonic() > deadline or not _others_import():
            return
        _after()  # an import may want the gate
        time.sleep(0.001)


def _others_import() -> bool:
    """Whether another thread is importing a module of ours, whose lock would stay held in the child.

    Python keeps the locks of modules that are being imported in a table of weak references by name, with their threads
    as `owner`; in versions without these, the answer is no.
    """
    table, me = getattr(_bootstrap, "_module_locks", {}), get_ident()
    locks = [found() for name, found in list(table.items()) if name.startswith(_OURS)]
    return any(getattr(found, "owner", None) not in (None, me) for found in locks)


def _after() -> None:
    for each in (*_undisturbed, _gate):
        if held(each):
            each.release()


def _in_child() -> None:
    _after()
    _undisturbed[:] = filter(held, _undisturbed)
    for each in (*_renewed, _gate):
        if not held(each):
            each._at_fork_reinit()


_latest: list[object] = [None]
_logs: list[bool] = []


def _register() -> None:
    """Let forks call our hooks, from now on before all others that are registered."""
    _latest[0] = mine = object()

    def only(hook: Callable[[], None]) -> Callable[[], None]:
        return lambda: hook() if _latest[0] is mine else None

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=only(_before), after_in_parent=only(_after), after_in_child=only(_in_child))


def logs() -> None:
    """Call it before code that may log: then a fork waits for our locks before it takes that of `logging`, which the
    threads that hold ours may need.
    """
    if not _logs:
        with undisturbed():
            import logging  # noqa: F401  its hooks are registered now, if they weren't yet

        _logs.append(True)
        _register()


_register()
