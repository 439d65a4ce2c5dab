"""Objects that came with the package: an archive of compiled kernels, read before the user's cache.

A wheel for one platform may have it (docs/deploy.md). It is trusted as the modules beside it are, and used where it was
made of the kernels' sources that lie there and for this platform, by whatever compiler: the objects need none, nor any
version of Python.

The archive is FORMAT, a start, a head, and the objects. The start: the head's checksum, the bytes of the origin, the
number of names, the bytes of the whole file. The head: the hash of the sources, the origin, and a row for each name,
which is the name's hash, where its object lies, and how many bytes it takes there. An object lies there compressed,
behind its checksum, once for all names that have it: tiers that are next to each other share most of their code.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from .toolchain import toolchain

PATH = Path(__file__).parents[1] / "ready.objects"
FORMAT = b"fastgraph ready objects 1\0"

_START = Struct("<32sIII")
_PLACE = Struct("<II")
_SUM, _KEY = 32, 16


class Refused(Exception):
    """An archive is not used; the text says which, why, and what to do."""


class Archive(NamedTuple):
    """Its file, what made it in words, and the rows of its head."""

    path: Path
    origin: str
    rows: bytes

    def place(self, name: str) -> tuple[int, int] | None:
        """The offset and the bytes of an object; None when the archive has none of that name."""
        at = self.rows.find(_key(name))
        return None if at < 0 else _PLACE.unpack_from(self.rows, at + _KEY)

    @property
    def named(self) -> int:
        """How many names there are; some may have the same object."""
        return len(self.rows) // (_KEY + _PLACE.size)


def find(names: Iterable[str]) -> dict[str, bytes]:
    """The objects that came with the package, by name (of store.entry), of those asked for.

    None of an archive that is stale, or in which one of them is damaged: a warning says so once.
    """
    try:
        archive = opened(PATH, toolchain()[0])
        return {} if archive is None else _read(archive, names)
    except Refused as refused:
        _say(str(refused))
        return {}


@cache
def _say(what: str) -> None:
    warnings.warn(f"{what}; kernels are compiled as without it", RuntimeWarning, stacklevel=5)


def state() -> str:
    """Text for people: how many compiled kernels came with the package, or why they are not used."""
    try:
        archive = opened(PATH, toolchain()[0])
    except Refused as refused:
        return str(refused)
    return "none" if archive is None else f"{archive.named} objects of {archive.path}, made by {archive.origin}"


@cache
def opened(path: Path, sources: str) -> Archive | None:
    """The archive at a path, None if there is none. One that is damaged, or of other sources, is refused."""
    try:
        with open(path, "rb", buffering=0) as file:
            start = file.read(len(FORMAT) + _START.size)
            if not start.startswith(FORMAT) or len(start) < len(FORMAT) + _START.size:
                raise Refused(f"{path} is no archive of ready kernels of this version: install fastgraph again")
            checksum, told, count, size = _START.unpack_from(start, len(FORMAT))
            wants = _SUM + told + (_KEY + _PLACE.size) * count
            head = file.read(wants) if wants < size == os.fstat(file.fileno()).st_size else b""
            if sha256(start[len(FORMAT) + _SUM :] + head).digest() != checksum:
                raise Refused(f"{path} is damaged: install fastgraph again")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}") from error
    origin = head[_SUM : _SUM + told].decode()
    if head[:_SUM].decode() != sources:
        raise Refused(
            f"{path} is not used: it was made of other sources of kernels, or for another platform, by {origin}; "
            "delete it, or install a wheel that was made of these"
        )
    return Archive(path, origin, head[_SUM + told :])


def _read(archive: Archive, names: Iterable[str]) -> dict[str, bytes]:
    """The objects that the archive has. Refused where it can't be read, or one is damaged."""
    places = {name: place for name in names if (place := archive.place(name))}
    found = {}
    try:
        with open(archive.path, "rb", buffering=0) as file:
            for name, (offset, size) in places.items():
                file.seek(offset)
                data = file.read(size)
                found[name] = obj = zlib.decompress(data[_SUM:])
                if data[:_SUM] != sha256(obj).digest():
                    raise zlib.error("another object")
    except OSError as error:
        raise Refused(f"{archive.path} can't be read: {error.strerror}") from error
    except zlib.error as error:
        raise Refused(f"in {archive.path}, {name} is damaged: install fastgraph again") from error
    return found


def write(path: Path, objects: Mapping[str, bytes], origin: str) -> None:
    """Write an archive of objects by name, made of this process's kernels by what `origin` says in words."""
    told, rows, data, offsets = origin.encode(), [], [], {}
    end = len(FORMAT) + _START.size + _SUM + len(told) + (_KEY + _PLACE.size) * len(objects)
    for name, obj in sorted(objects.items()):
        if obj not in offsets:
            data.append(sha256(obj).digest() + zlib.compress(obj, 9))
            offsets[obj] = end, len(data[-1])
            end += len(data[-1])
        rows.append(_key(name) + _PLACE.pack(*offsets[obj]))
    start = _START.pack(bytes(_SUM), len(told), len(rows), end)[_SUM:]
    head = b"".join([toolchain()[0].encode(), told, *rows])
    path.write_bytes(b"".join([FORMAT, sha256(start + head).digest(), start, head, *data]))


def _key(name: str) -> bytes:
    return sha256(name.encode()).digest()[:_KEY]
