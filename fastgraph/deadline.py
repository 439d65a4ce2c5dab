"""Time limits of a thread's work. Long computations check them between their parts."""

from __future__ import annotations

import math
import time
from _thread import TIMEOUT_MAX, _local
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

from .errors import InputError, RunTimeout

_mine = _local()


@contextmanager
def within(timeout: Any) -> Iterator[None]:
    """Ends what runs inside with RunTimeout `timeout` seconds from now. InputError for an invalid timeout."""
    number = isinstance(timeout, Real) and not isinstance(timeout, bool)
    if not number or not timeout >= 0:  # so NaN isn't one either
        raise InputError(f"timeout={timeout!r}: seconds, a number of at least 0, or None for no limit")
    before = getattr(_mine, "end", None)
    _mine.end = time.monotonic() + float(min(timeout, TIMEOUT_MAX / 2))
    try:
        yield
    finally:
        _mine.end = before


def seconds_left() -> float:
    """Seconds until this thread's deadline, at least 0; infinity without one."""
    end = getattr(_mine, "end", None)
    return math.inf if end is None else max(0.0, end - time.monotonic())


def check() -> None:
    """RunTimeout when this thread's deadline has passed."""
    end = getattr(_mine, "end", None)
    if end is not None and time.monotonic() >= end:
        raise RunTimeout
