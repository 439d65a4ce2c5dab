"""Settings of the environment: the variables FASTGRAPH_*, as README lists them."""

from __future__ import annotations

import os
import sys

from .errors import InputError
from .locks import undisturbed


def setting(name: str, *allowed: str) -> str:
    """The value of a variable, the first one allowed where it is empty or not set. InputError for all others."""
    found = os.environ.get(name) or allowed[0]
    if found not in allowed:
        raise wrong(name, found, " or ".join([", ".join(allowed[:-1]), allowed[-1]]))
    return found


def wrong(name: str, found: str, expected: str) -> InputError:
    """The error for a variable with a value that it can't have."""
    return InputError(f"environment variable {name}={found!r}: expected {expected}; set it so, or unset it")


def cache_directory() -> str:
    """The cache's directory: $FASTGRAPH_CACHE_DIR, or `fastgraph` in the platform's user cache directory. A user
    without a home, as containers have, gets a folder among temporary files.
    """
    if chosen := os.environ.get("FASTGRAPH_CACHE_DIR"):
        return _absolute(os.path.expanduser(chosen))  # a container's or a service's settings know no ~
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    if base.startswith("~"):
        return _temporary()
    return _absolute(os.path.join(base, "fastgraph"))


def _absolute(path: str) -> str:
    return os.path.join(os.getcwd(), path)


def _temporary() -> str:
    """This user's folder among temporary files."""
    with undisturbed():
        from tempfile import gettempdir  # most users have a home

    return os.path.join(gettempdir(), f"fastgraph-{os.geteuid()}" if hasattr(os, "geteuid") else "fastgraph")
