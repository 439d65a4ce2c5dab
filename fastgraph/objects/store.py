"""Files of compiled kernels: written whole, read only if they are what was written, and by whom we trust.

There is one folder per toolchain, and in it one file per kernel and ISA tier. An entry carries a checksum of itself, so
that one which is cut short or damaged is built again. Writers replace whole files; they may race.
"""

from __future__ import annotations

import os
import time
import warnings
from hashlib import sha256
from pathlib import Path

from ..errors import CompilerError
from ..kernels.core.kernel import Kernel
from ..kernels.isa.tiers import Tier
from ..locks import undisturbed
from . import trust
from .link import check
from .toolchain import FORMAT, directory, toolchain

_KEPT_TOOLCHAINS = 16

_STALE = 86400.0
"""Seconds after which a file that somebody began to write is nobody's."""

_unsaved: dict[Path, bytes] = {}
_said: list[str] = []


def folder() -> Path:
    """Where this toolchain's objects are."""
    return directory() / "objects" / toolchain()


def entry(place: Path, kernel: Kernel, tier: Tier) -> Path:
    """The file of a kernel for a tier in such a folder."""
    wants = sha256(f"{kernel.symbol} {tier.name} {tier.features} {tier.cpu} {kernel}".encode()).hexdigest()
    return place / f"{kernel.name}-{tier.name}-{wants[:32]}.o"


def compiled(kernel: Kernel, tier: Tier) -> bytes:
    """The object of a kernel, compiled now. CompilerError when llvmlite is missing, or does not do it."""
    with undisturbed():
        try:
            from ..kernels.core.build import build
        except (ImportError, OSError) as error:
            raise no_compiler(kernel, tier, "llvmlite, which compiles it, can't be imported", error) from error
        from ..kernels.core.table import row

        function = row(kernel.name).make()(tier, **dict(kernel.params))
        try:
            obj: bytes = build(function, kernel.symbol, tier)
            check(obj, f"kernel {kernel}")
        except (RuntimeError, OSError) as error:
            raise no_compiler(kernel, tier, "LLVM can't compile it", error) from error
    return obj


def no_compiler(kernel: object, tier: Tier, what: str, error: Exception) -> CompilerError:
    """The error of what can't be had here, with the ways to go on."""
    why = f" ({_said[0]})" if _said else ""
    return CompilerError(
        f"kernel {kernel} for {tier.name} is not in the cache{why}, and {what} ({type(error).__name__}: {error}): "
        "install llvmlite again (pip install --force-reinstall llvmlite); or compile where it works (fastgraph kernels "
        f"--build --isa {tier.name}) and let FASTGRAPH_CACHE_DIR name a copy of that cache; or load with isa='numpy', "
        "which compiles nothing and is slow"
    )


def keep(kernel: Kernel, tier: Tier, obj: bytes) -> bytes:
    """Keep a kernel's object in the cache; it is given back."""
    with undisturbed():
        _write(entry(folder(), kernel, tier), obj)
    return obj


def trusted(place: Path) -> bool:
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


def read(path: Path, safe: bool) -> bytes | None:
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
    obj = data[len(FORMAT) + 32 :]
    return obj if data[: len(FORMAT) + 32] == FORMAT + _checksum(path, obj) else None


def _write(path: Path, obj: bytes) -> None:
    """Keep an object: in its place, or in this process only when that can't be written."""
    with undisturbed():
        import tempfile

    try:
        prepare(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(FORMAT + _checksum(path, obj) + obj)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except (OSError, trust.Untrusted) as error:
        _say(f"compiled kernels can't be kept, so each process compiles them again: {error}")
        _unsaved[path] = obj


def prepare(place: Path) -> None:
    """Make the folder of objects. OSError when that can't be, Untrusted when others can write there."""
    _make(place)
    trust.check_folder(place)


def _make(folder: Path) -> None:
    """A directory, and those above it that are missing: for this user alone, whatever the umask."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def prune(place: Path) -> None:
    """Keep the objects of the toolchains built last; who still uses another builds it again. And drop what processes
    that died left half written."""
    with undisturbed():
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
