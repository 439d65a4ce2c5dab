"""The cache's directory, and the name of the toolchain."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from hashlib import sha256
from importlib import util
from importlib.machinery import PathFinder
from pathlib import Path

from ..kernels import __path__ as KERNELS
from ..locks import undisturbed
from ..settings import cache_directory

FORMAT = b"fastgraph object 1\0"
"""The first bytes of a cache entry."""


def directory() -> Path:
    return Path(cache_directory())


@cache
def toolchain() -> tuple[str, str]:
    """Two hashes of all that an object depends on but kernel and tier: of the kernels' sources and the platform, and of
    the compiler and the Python whose bytecode it reads; the latter is empty where numba or llvmlite is not installed.
    """
    versions = [_version(package) for package in ("numba", "llvmlite")]
    python = str(sys.version_info[:2]).encode()
    return _sources_name(), sha256(b"\0".join([*versions, python])).hexdigest()[:16] if all(versions) else ""


def _sources_name() -> str:
    digest = sha256(FORMAT)
    for text in (platform.machine(), sys.platform):
        digest.update(text.encode() + b"\0")
    root = KERNELS[0]
    for path in _sources(root):
        with open(path, "rb", buffering=0) as file:
            text = path[len(root) :].replace(os.sep, "/")
            digest.update(text.encode() + b"\0" + sha256(file.read()).digest())
    return digest.hexdigest()[:32]


def _sources(folder: str) -> list[str]:
    """The Python files in and under a folder, in order."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                found.append(entry.path)
            elif entry.is_dir() and entry.name != "__pycache__":
                found += _sources(entry.path)
    return sorted(found)


def _version(package: str) -> bytes:
    """A package's version without importing it: the text of its `_version.py`."""
    spec = PathFinder.find_spec(package) or (None if package in sys.modules else util.find_spec(package))
    if spec is None or not spec.origin:
        return b""
    try:
        return Path(spec.origin).with_name("_version.py").read_bytes()
    except OSError:
        with undisturbed():
            from importlib.metadata import version

        return version(package).encode()
