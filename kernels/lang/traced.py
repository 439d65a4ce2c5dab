"""Functions of values that kernel code calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Body = TypeVar("Body", bound=Callable)


def traced(function: Body) -> Body:
    """Have Python run a function once, while a kernel is written that calls it: it computes with values.

    It may be called from kernel code that numba reads and from other traced functions. From kernel code, int64s come as
    values and numbers that are known as Python's; a record that was read comes as a named tuple of values. It may give
    nothing (which `-> None` says, so that it need not be run to find out), a value, or a tuple of values.
    """
    function.traced = True  # type: ignore[attr-defined]
    return function


def every_tier(kernel: Body) -> Callable[..., Body]:
    """The generator of a kernel that is written alike for all tiers."""
    return wraps(kernel)(lambda tier: kernel)
