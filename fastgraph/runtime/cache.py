"""Compiled kernels, kept between processes by content.

An entry's name tells all that its bytes depend on: one directory per toolchain (the sources of
`fastgraph.kernels`, the versions of numba, llvmlite and Python, the platform), one file per kernel and ISA
tier. An entry carries a checksum of itself, so that one which is cut short or damaged is built again. Writers
replace whole files; they may race.
"""

from __future__ import annotations

import os
import platform
import sys
import time
import warnings
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib import util
from importlib.machinery import PathFinder
from pathlib import Path

from .. import deadline
from .. import kernels as _kernels
from ..kernels.core.kernel import Kernel
from ..kernels.isa.tiers import Tier
from . import crew, trust
from .link import check
from .locks import lock, undisturbed
from .progress import Progress, terminal

_MAGIC = b"fastgraph object 1\0"
_KEPT_TOOLCHAINS = 16

_STALE = 86400.0
"""Seconds after which a file that somebody began to write is nobody's."""

_lock = lock()
_unsaved: dict[Path, bytes] = {}
_said: list[str] = []


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


def objects(kernels: Sequence[Kernel], tier: Tier, progress: Progress = terminal) -> list[bytes]:
    """The object file of each kernel for a tier, in order; what is missing is compiled and kept.

    numba is imported only when something is missing. Raises what a kernel's generator or the compiler raises, and
    RunTimeout when this thread's deadline passes meanwhile: what was compiled by then is kept.
    """
    place = _toolchain_directory()
    safe = _trusted(place)
    found = [_read(_entry(place, kernel, tier), safe) for kernel in kernels]
    if None not in found:
        return [obj for obj in found if obj is not None]
    with _lock:
        built = _build_missing(place, list(kernels), tier, progress)
    return [obj or built[kernel] for kernel, obj in zip(kernels, found, strict=True)]


def _build_missing(place: Path, kernels: list[Kernel], tier: Tier, progress: Progress) -> dict[Kernel, bytes]:
    """All of `kernels`: another thread or process may have built some since we looked."""
    safe = _trusted(place)
    built = {kernel: _read(_entry(place, kernel, tier), safe) for kernel in kernels}
    missing = [kernel for kernel, obj in built.items() if obj is None]
    own, *others = crew.shares(missing)
    helpers = [crew.call(share, tier) for share in others]
    try:
        for done, kernel in enumerate(own):
            deadline.check()
            progress(done * len(missing) // len(own), len(missing), str(kernel))
            built[kernel] = keep(kernel, tier)
        for share, helper in zip(others, helpers, strict=True):
            if helper is not None:
                crew.finish(helper, [_entry(place, kernel, tier) for kernel in share])
            for kernel in share:
                deadline.check()
                built[kernel] = _read(_entry(place, kernel, tier), _trusted(place)) or keep(kernel, tier)
    finally:
        for helper in helpers:
            if helper is not None:
                helper.kill()
                helper.wait()
        progress(len(missing), len(missing), "")
    if _trusted(place):
        with undisturbed():
            _prune(place)
    return {kernel: obj for kernel, obj in built.items() if obj is not None}


def keep(kernel: Kernel, tier: Tier) -> bytes:
    """The object of a kernel, compiled now and kept."""
    with undisturbed():
        obj = _compile(kernel, tier)
        _write(_entry(_toolchain_directory(), kernel, tier), obj)
    return obj


def _compile(kernel: Kernel, tier: Tier) -> bytes:
    from ..kernels.core.build import build
    from ..kernels.core.table import row

    obj = build(row(kernel.name).make()(tier, **dict(kernel.params)), kernel.symbol, tier)
    check(obj, f"kernel {kernel}")
    return obj


# -- names


@cache
def toolchain() -> str:
    """A name for everything but kernel and tier that an object's bytes depend on."""
    digest = sha256(_MAGIC)
    for text in (platform.machine(), sys.platform, str(sys.version_info[:2])):
        digest.update(text.encode() + b"\0")
    for package in ("numba", "llvmlite"):
        digest.update(_version(package) + b"\0")
    root = _kernels.__path__[0]
    for path in _sources(root):
        with open(path, "rb") as file:
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
        from importlib.metadata import version

        return version(package).encode()


def _toolchain_directory() -> Path:
    return directory() / "objects" / toolchain()


def _entry(place: Path, kernel: Kernel, tier: Tier) -> Path:
    wants = sha256(f"{kernel.symbol} {tier.name} {tier.features} {tier.cpu} {kernel}".encode()).hexdigest()
    return place / f"{kernel.name}-{tier.name}-{wants[:32]}.o"


# -- files


def _trusted(place: Path) -> bool:
    """Whether only this user (or the system's owner) can have written there: objects are code that we run."""
    try:
        trust.check_folder(place)
    except trust.Untrusted as error:
        _say(f"compiled kernels in {place} are not used: {error}")
        return False
    except OSError:
        return False
    return True


def _say(what: str) -> None:
    """A warning, and what to do: once per process, as all entries of a cache tend to have the same fault."""
    if not _said:
        _said.append(what)
        warnings.warn(f"{what}; set FASTGRAPH_CACHE_DIR to a directory of your own", RuntimeWarning, stacklevel=3)


def _checksum(path: Path, obj: bytes) -> bytes:
    return sha256(path.name.encode() + obj).digest()


def _read(path: Path, safe: bool) -> bytes | None:
    """The object kept at `path`, or None when there is none or it isn't what was written."""
    if path in _unsaved:
        return _unsaved[path]
    if not safe:
        return None
    try:
        data = trust.read(path)
    except trust.Untrusted as error:
        _say(f"a compiled kernel is not used, and built again: {error}")
        return None
    except OSError:
        return None
    obj = data[len(_MAGIC) + 32 :]
    return obj if data[: len(_MAGIC) + 32] == _MAGIC + _checksum(path, obj) else None


def _write(path: Path, obj: bytes) -> None:
    """Keep an object: in its place, or in this process only when that can't be written."""
    import tempfile

    try:
        _make(path.parent)
        trust.check_folder(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + _checksum(path, obj) + obj)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except (OSError, trust.Untrusted) as error:
        _say(f"compiled kernels can't be kept, so each process compiles them again: {error}")
        _unsaved[path] = obj


def _make(folder: Path) -> None:
    """A directory, and those above it that are missing: for this user alone, whatever the umask."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _prune(place: Path) -> None:
    """Keep the objects of the toolchains built last; who still uses another builds it again. And drop what processes
    that died left half written."""
    import shutil

    try:
        newest = sorted(place.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in place.glob(".new-*"):
            if path.stat().st_mtime < time.time() - _STALE:
                path.unlink()
    except OSError:
        return
    for path in newest[_KEPT_TOOLCHAINS:]:
        shutil.rmtree(path, ignore_errors=True)
