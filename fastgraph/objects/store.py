"""Files of compiled kernels: written whole, and read only if complete and written by a trusted user.

There is one folder per toolchain, and in it one file per kernel and ISA tier. An entry has a checksum, so that damaged
ones are built again. Writers replace whole files; they may race.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from ..errors import CompilerError, is_full
from ..kernels.core.kernel import Kernel
from ..kernels.isa.tiers import Tier
from ..locks import undisturbed
from . import ready, trust
from .link import check
from .toolchain import FORMAT, directory, toolchain

_KEPT_TOOLCHAINS = 16

_STALE = 86400.0
"""Seconds after which an unfinished file is abandoned."""

_unsaved: dict[Path, bytes] = {}
_warned: list[str] = []


def folder() -> Path:
    """The folder of this toolchain's objects; without a compiler, the newest that any compiler made of the same
    sources.
    """
    place, (sources, compiler) = directory() / "objects", toolchain()
    if not compiler:
        made = [path for path in place.glob(f"{sources}-*") if path.is_dir()]
        return max(made, key=os.path.getmtime, default=place / f"{sources}-none")
    return place / f"{sources}-{compiler}"


def entry(place: Path, kernel: Kernel, tier: Tier) -> Path:
    """The file of a kernel for a tier in such a folder."""
    wants = sha256(f"{kernel.symbol} {tier.name} {tier.features} {tier.cpu} {kernel}".encode()).hexdigest()
    return place / f"{kernel.name}-{tier.name}-{wants[:32]}.o"


def find(kernels: Sequence[Kernel], tier: Tier) -> list[bytes | None]:
    """The object of each kernel that came with the package, or that the cache has; None where neither does."""
    place = folder()
    paths = [entry(place, kernel, tier) for kernel in kernels]
    came = ready.find(path.name for path in paths)
    safe = len(came) < len(paths) and trusted(place)
    return [came.get(path.name) or read(path, safe) for path in paths]


def made(kernel: Kernel, tier: Tier) -> bytes | None:
    """The object of a kernel, if the cache has it by now."""
    place = folder()
    return read(entry(place, kernel, tier), trusted(place))


def compiled(kernel: Kernel, tier: Tier) -> bytes:
    """The object of a kernel, compiled now. CompilerError when numba or llvmlite is missing, or fails."""
    with undisturbed():
        try:
            from ..kernels.core.build import build
        except (ImportError, OSError) as error:
            raise no_compiler(kernel, tier, "numba, which compiles it, can't be imported", error) from error
        from ..kernels.core.table import row

        function = row(kernel.name).make()(tier, **dict(kernel.params))
        try:
            obj: bytes = build(function, kernel.symbol, tier)
            check(obj, f"kernel {kernel}")
        except (RuntimeError, OSError) as error:
            raise no_compiler(kernel, tier, "LLVM can't compile it", error) from error
    return obj


def no_compiler(kernel: object, tier: Tier, what: str, error: Exception) -> CompilerError:
    """The error for a kernel that can't be compiled here, with ways to go on."""
    why = f" ({_warned[0]})" if _warned else ""
    return CompilerError(
        f"kernel {kernel} for {tier.name} is not in the cache{why}, and {what} ({type(error).__name__}: {error}): "
        "install numba again (pip install --force-reinstall numba); or compile where it works (fastgraph kernels "
        f"--build --isa {tier.name}) and let FASTGRAPH_CACHE_DIR name a copy of that cache; or load with isa='numpy', "
        "which compiles nothing and is slow"
    )


def keep(kernel: Kernel, tier: Tier, obj: bytes) -> bytes:
    """Write a kernel's object to the cache, and return it."""
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


def _say(what: str, full: bool = False) -> None:
    """Warn once per process, with a remedy: all entries of a cache tend to have the same fault."""
    if not _warned:
        _warned.append(what)
        room = "free some room, or " if full else ""
        text = f"{what}; {room}set FASTGRAPH_CACHE_DIR to a directory of your own"
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def _checksum(path: Path, obj: bytes) -> bytes:
    return sha256(path.name.encode() + obj).digest()


def read(path: Path, safe: bool) -> bytes | None:
    """The object kept at `path`; None when it is missing or damaged."""
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
    """Write an object, or keep it in this process when it can't be written."""
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
        what = f"compiled kernels can't be kept in {path.parent}, so each process compiles them again: {error}"
        _say(what, is_full(error))
        _unsaved[path] = obj


def prepare(place: Path) -> None:
    """Make the folder of objects. OSError when that fails, Untrusted when others can write there."""
    _make(place)
    trust.check_folder(place)


def _make(folder: Path) -> None:
    """Make a directory and its missing parents, for this user alone, whatever the umask."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def prune(place: Path) -> None:
    """Delete the objects of all but the last toolchains, whose users build them again, and unfinished files of dead
    processes.
    """
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
