"""Programs that are kept from process to process: a second load of the same file costs what a saved program does.

One saved program (saved/container.py) for each file's content, options and version, in the cache's directory beside the
kernels, under the same rules of trust. FASTGRAPH_PLAN_CACHE bounds them all together ("1GiB" by default); "0" turns
this off.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib import import_module
from sys import modules, version_info
from typing import TYPE_CHECKING, Any, cast

from .. import __path__ as SOURCES
from .. import __version__
from ..errors import FastgraphError
from ..freedoms import unusual
from ..kernels.isa.tiers import EXTRAS, NUMPY, Tier, has
from ..locks import undisturbed
from ..objects import trust
from ..saved.container import Container, opened
from ..settings import cache_directory, wrong
from .plans import bytes_of

if TYPE_CHECKING:
    from .model import Model

USUAL = "1GiB"
SMALL = 1 << 19
"""Bytes for which Python's own SHA-256 takes 1.7 ms, and OpenSSL's 0.4 after an import of 2.7 to 5."""
LOCATION = b"\n\x08location\x12"
"""The mark of external data in an ONNX file: a StringStringEntryProto with this key."""


def place_of(source: str | bytes, tier: Tier, options: tuple[Any, ...]) -> str | None:
    """Where the program of a file for these options is kept; None where it is not: bytes, files beside the model's own,
    operators of users, unusual plans.
    """
    most = _most()
    if not most or isinstance(source, bytes) or tier is NUMPY or unusual() or _has_custom_ops():
        return None
    try:
        paths = files(source)
        size = sum(map(os.path.getsize, paths))
        if size > most // 4:
            return None
        flags = [flag for flag in EXTRAS if has([flag])]
        name = _hashed(source, paths, size, repr((__version__, tier.name, flags, options, versions())))
    except OSError:
        return None  # who reads the file says why
    return os.path.join(cache_directory(), "plans", f"{name[:40]}.fgm")


def digest(source: str, more: str = "", beside: Iterable[str] = ()) -> str:
    """The SHA-256 of a file, or of the files of a folder, and of those `beside`, with their names, and of a text.
    OSError.
    """
    paths = [*files(source), *beside]
    return _hashed(source, paths, sum(map(os.path.getsize, paths)), more)


def _hashed(source: str, paths: Iterable[str], size: int, more: str) -> str:
    """The SHA-256 of a text and files, of `size` bytes together, with their names from the source on."""
    found, part = _sha256(size)(more.encode()), bytearray(1 << 18)
    for path in paths:
        found.update(os.path.relpath(path, source).encode() + b"\0")
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(part):
                found.update(memoryview(part)[:count])
    name: str = found.hexdigest()
    return name


def _sha256(size: int) -> Callable[[bytes], Any]:
    """A SHA-256 object for so many bytes: Python's own for few, else hashlib's, which is OpenSSL's."""
    own = "_sha2" if version_info >= (3, 12) else "_sha256"
    with undisturbed():
        if size <= SMALL:
            with suppress(ImportError):
                return cast(Callable[[bytes], Any], import_module(own).sha256)
        from hashlib import sha256
    return sha256


def stands_alone(source: str) -> bool:
    """Whether no tensor of a file lies in others (ONNX's external data); False, too, for some that merely look so, and
    where it can't be read.
    """
    with undisturbed():
        from mmap import ACCESS_READ, mmap
    try:
        for path in files(source):
            with open(path, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
                if data.find(LOCATION) >= 0:
                    return False
    except (OSError, ValueError):
        return False
    return True


def find(place: str, title: str) -> Container | None:
    """The program kept there, if there is one, it is what was written, and nobody else can have written it."""
    try:
        trust.check_folder(os.path.dirname(place))
        handle = trust.opened(place)
        try:
            trust.check_file(handle, place)
            found = opened(handle, title)
        finally:
            os.close(handle)
        found.check(quick=True)
        with suppress(OSError):  # a cache may be read-only
            os.utime(place)  # those used last are kept longest
        return found
    except (OSError, trust.Untrusted, FastgraphError):
        return None


def keeper(place: str) -> Callable[[Model], None]:
    """A function that keeps a model's program there, as far as there is room; silent where that is not possible."""

    def keep(model: Model) -> None:
        from ..objects.store import prepare
        from .save import is_flat

        if not all(is_flat(made.compiled) for made in model._planner.made_plans().values()):
            return  # it would be planned again anyway
        if model.signature.beside:
            return  # the digest would not tell when those files change
        try:
            with undisturbed():
                from pathlib import Path
            prepare(Path(place).parent)
            _write(model, place)
            _drop(os.path.dirname(place))
        except (FastgraphError, OSError, trust.Untrusted):
            return

    return keep


def _write(model: Model, place: str) -> None:
    """Save the plans that the model has; and the graph, if further shapes may want it: else the file is read again by
    who looks at it.
    """
    from .save import origin_of, save

    keys = model._keys
    plans = [(tier, count, key, made) for (tier, count, key), made in model._planner.made_plans().items()]
    origin = origin_of(model.graph, hashed=False)
    save(place, keys, model._outputs, plans, origin, whole=bool(keys.open or keys.decide))


def _drop(folder: str) -> None:
    """Delete what was not used for longest, until the others are within the bound."""
    with os.scandir(folder) as entries:
        files = sorted(((e.stat().st_mtime, e.stat().st_size, e.path) for e in entries if e.is_file()), reverse=True)
    left = _most()
    for _, size, path in files:
        left -= size
        if left < 0:
            os.unlink(path)


def _most() -> int:
    """The bound in bytes, 0 for none to be kept. InputError for what is no number of bytes."""
    given = os.environ.get("FASTGRAPH_PLAN_CACHE") or USUAL
    found = bytes_of(given)
    if not isinstance(found, int):
        raise wrong("FASTGRAPH_PLAN_CACHE", given, "a number of bytes, as 512MB or 1GiB, or 0 for none")
    return found


def _has_custom_ops() -> bool:
    """Whether users' operators may change what files mean."""
    registry = modules.get("fastgraph.ops.registry")
    return registry is not None and bool(registry.USERS)


def files(source: str) -> list[str]:
    """The file, or the files of a package, in order. OSError for anything else, such as a pipe, or any other folder."""
    found = [source]
    if os.path.isfile(os.path.join(source, "Manifest.json")):
        found = sorted(os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names)
    if not all(map(os.path.isfile, found)):
        raise OSError(f"{source} is neither a file nor a package of files")
    return found


@cache
def versions() -> list[tuple[str, int]]:
    """The fingerprint of this installation, as this process found it: the times of this package's folders; in
    a checkout, where editors change files in place, of all sources.
    """
    edited = os.path.exists(os.path.join(SOURCES[0], "..", ".git"))
    found, waiting = [], [SOURCES[0]]
    while waiting:
        folder = waiting.pop()
        names = os.listdir(folder)
        sources = [name for name in names if edited and name.endswith(".py")]
        paths = [folder, *(os.path.join(folder, name) for name in sorted(sources))]
        found += [(path, os.stat(path).st_mtime_ns) for path in paths]
        waiting += [os.path.join(folder, name) for name in sorted(names) if "." not in name and name != "__pycache__"]
    return found
