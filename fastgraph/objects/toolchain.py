"""Where compiled kernels are kept, and the name of what compiles them."""

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

FORMAT = b"fastgraph object 1\0"
"""What a kept object begins with."""


def directory() -> Path:
    """Where objects are kept: $FASTGRAPH_CACHE_DIR, or `fastgraph` in the platform's user cache directory."""
    if chosen := os.environ.get("FASTGRAPH_CACHE_DIR"):
        return Path(chosen).absolute()
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(base, "fastgraph").absolute()


@cache
def toolchain() -> str:
    """A name for everything but kernel and tier that an object's bytes depend on."""
    digest = sha256(FORMAT)
    for text in (platform.machine(), sys.platform, str(sys.version_info[:2])):
        digest.update(text.encode() + b"\0")
    digest.update(_version("llvmlite") + b"\0")
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
    """What tells a package's version, without importing it: the text of its `_version.py`."""
    spec = PathFinder.find_spec(package) or (None if package in sys.modules else util.find_spec(package))
    if spec is None or not spec.origin:
        return b""
    try:
        return Path(spec.origin).with_name("_version.py").read_bytes()
    except OSError:
        with undisturbed():
            from importlib.metadata import version

        return version(package).encode()
