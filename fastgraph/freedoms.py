"""What passes and plans may do but need not: tests take these freedoms away and compare the results.

Freedoms are the stages of `compile.py` and the rules of `rules/catalog.py` by name; in `plan/`: "bands" (lower/), the
candidates of choose.py by name ("winograd", "depthwise", ...) while others suit, "views" and "in_place" (storage.py),
"reuse" (of the memory of dead values, build.py). Without "control", a stage, NumPy runs all control flow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_gone: ContextVar[frozenset[str]] = ContextVar("gone", default=frozenset())


def free(name: str) -> bool:
    """Whether plans made now have this freedom."""
    return name not in _gone.get()


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Plans made inside don't have these freedoms."""
    token = _gone.set(_gone.get() | set(names))
    try:
        yield
    finally:
        _gone.reset(token)
