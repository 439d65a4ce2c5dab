"""Settings of the environment: the variables FASTGRAPH_*, as README lists them."""

from __future__ import annotations

import os

from .errors import InputError


def setting(name: str, allowed: tuple[str, ...], usual: str) -> str:
    """The value of a variable, `usual` where it is empty or not set. InputError when it is none of those allowed."""
    found = os.environ.get(name) or usual
    if found not in allowed:
        raise wrong(name, found, " or ".join([", ".join(allowed[:-1]), allowed[-1]]))
    return found


def switched(name: str) -> bool:
    """Whether a variable is "1" rather than "0", which is usual. InputError when it is neither."""
    return setting(name, ("0", "1"), "0") == "1"


def wrong(name: str, found: str, expected: str) -> InputError:
    """The error for a variable with a value that it can't have."""
    return InputError(f"environment variable {name}={found!r}: expected {expected}; set it so, or unset it")
