"""Settings of the environment: the variables FASTGRAPH_*, as README lists them."""

from __future__ import annotations

import os

from .errors import InputError


def setting(name: str, *allowed: str) -> str:
    """The value of a variable, the first one allowed where it is empty or not set. InputError for all others."""
    found = os.environ.get(name) or allowed[0]
    if found not in allowed:
        raise wrong(name, found, " or ".join([", ".join(allowed[:-1]), allowed[-1]]))
    return found


def wrong(name: str, found: str, expected: str) -> InputError:
    """The error for a variable with a value that it can't have."""
    return InputError(f"environment variable {name}={found!r}: expected {expected}; set it so, or unset it")
