"""Files that may come from anyone: only regular ones are read, and only as far as there is memory.

Opening a pipe waits for who writes into it, and opening a device may do anything: so a path is looked at before it is
opened, opened without waiting, and looked at again, for it may have been changed in between.
"""

from __future__ import annotations

import mmap
import os
import stat
from typing import BinaryIO

import numpy as np

from ...errors import ModelError
from ...limits import current
from ...room import need

LARGE, MAPPED = 1 << 26, 1 << 20
"""Bytes of a file from which on its parts are mapped, and of a part: a mapping takes whole pages, and a call."""

_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK"))
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def opened(path: str | os.PathLike[str], where: str = "") -> BinaryIO:
    """A regular file, to be read. ModelError (of `where`) for anything else, OSError when it can't be opened."""
    where = f"{where}: {os.path.basename(path)}" if where else os.fspath(path)
    _check(os.stat(path), where)
    handle = os.open(path, _FLAGS)
    try:
        _check(os.fstat(handle), where)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def inside(folder: str | os.PathLike[str], name: str, first: str | os.PathLike[str]) -> str | None:
    """Where a name with slashes leads from a folder; None where that is out of it, and not beside where `first`, the
    model's own file, leads: a cache may be folders of links to files that lie side by side, as Hugging Face's.
    """
    path, real = os.path.realpath(os.path.join(folder, *name.split("/"))), os.path.realpath(folder)
    beside = os.path.dirname(path) == os.path.dirname(os.path.realpath(first))
    return path if beside or os.path.commonpath((path, real)) == real else None


def _check(status: os.stat_result, where: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise ModelError(f"{where}: expected a regular file, found {kind}")


def size_of(file: BinaryIO) -> int:
    """Bytes of an open file; counted, the first time, as stored bytes of the model that is being read."""
    status = os.fstat(file.fileno())
    current().store((status.st_dev, status.st_ino), status.st_size)
    return status.st_size


def contents(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a regular file. MemoryError when they are more than there is memory."""
    with opened(path) as file:
        size = size_of(file)
        need(size)
        return file.read(size)


def whole(path: str | os.PathLike[str]) -> memoryview:
    """Its bytes as memory of NumPy's, which takes large pages for large files. ModelError when it shrinks."""
    with opened(path) as file:
        return part(file, 0, size_of(file), os.fspath(path)).data


def part(file: BinaryIO, offset: int, size: int, where: str) -> np.ndarray:
    """`size` bytes of an open file from `offset` on, as uint8, which can't be written. ModelError when it is shorter.

    Of large files these are mapped: read when they are used, and not held twice. Who shortens such a file meanwhile
    ends the process, as with a library that is loaded; who replaces it does not.
    """
    whole = os.fstat(file.fileno()).st_size
    if whole >= LARGE and size >= MAPPED and offset + size <= whole:
        begin = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(file.fileno(), offset + size - begin, access=mmap.ACCESS_READ, offset=begin)
        return np.frombuffer(mapped, np.uint8)[offset - begin :]
    need(size)
    file.seek(offset)
    data = np.fromfile(file, np.uint8, size)
    if len(data) != size:
        raise ModelError(f"{where}: expected {size} bytes at {offset}, found {len(data)}: another program changes it")
    data.flags.writeable = False
    return data
