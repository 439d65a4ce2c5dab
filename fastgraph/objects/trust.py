"""Whether only this user or the system's owner can have written a file: the cache and saved programs hold code that we
run.

On platforms without such owners (Windows) everything is trusted: a user's cache directory is his own.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from functools import cache

from ..locks import undisturbed

_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
_LINKS = 40


class Untrusted(Exception):
    """Other users can have written it; the text says what, and why."""


def check_folder(folder: str | os.PathLike[str], alone: bool = True) -> None:
    """Untrusted when others can write in a directory, or replace it. OSError when there is none. `alone`: whether
    nobody else may write there at all; else others may have files there, if they can't touch those of the user.

    Every directory and symbolic link on the path, which is absolute, counts. Parents may be like /tmp, where users
    can't touch what belongs to others, or writable by the user's own group when nobody else is in it.
    """
    if not hasattr(os, "geteuid"):
        os.stat(folder)
        return
    for path, info in _way(os.fspath(folder)):
        if info.st_uid not in (os.geteuid(), 0):
            raise Untrusted(f"{path} belongs to another user (number {info.st_uid})")
        if stat.S_ISLNK(info.st_mode) or not info.st_mode & _OTHERS:
            continue
        above = not alone or not os.path.samestat(info, os.stat(folder))
        if above and info.st_mode & stat.S_ISVTX:
            continue
        if above and not info.st_mode & stat.S_IWOTH and _alone_in(info.st_gid):
            continue
        raise Untrusted(f"other users can write in {path}")


def read(path: str | os.PathLike[str]) -> bytes:
    """A file's bytes. Untrusted when others can have written it, or it is no plain file; OSError as from `open`."""
    handle = opened(path)
    try:
        check_file(handle, path)
        with open(handle, "rb", buffering=0, closefd=False) as file:
            return file.readall()
    finally:
        os.close(handle)


def opened(path: str | os.PathLike[str]) -> int:
    """A descriptor of a file, to be read. Untrusted for symbolic links and what is no plain file; OSError as from
    `open`.
    """
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Untrusted(f"{path} is a symbolic link") from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Untrusted(f"{path} is no plain file")
    return handle


def check_file(handle: int, path: str | os.PathLike[str]) -> None:
    """Untrusted when others can have written an open file."""
    info = os.fstat(handle)
    if hasattr(os, "geteuid"):
        if info.st_uid not in (os.geteuid(), 0):
            raise Untrusted(f"{path} belongs to another user (number {info.st_uid})")
        if info.st_mode & _OTHERS:
            raise Untrusted(f"other users can write to {path}")


def _way(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every directory and symbolic link that the system resolves from the root to `path`, and what `path` resolves
    to.
    """
    at, rest, links = "/", path.split("/"), 0
    yield at, os.lstat(at)
    while rest:
        part = rest.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, part)
        info = os.lstat(here)
        yield here, info
        if not stat.S_ISLNK(info.st_mode):
            at = here
            continue
        if (links := links + 1) > _LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(here)
        at = "/" if target.startswith("/") else at
        rest = target.split("/") + rest


@cache
def _alone_in(group: int) -> bool:
    """Whether a group is this user's private one: his primary group, of his name, with no other members."""
    with undisturbed():
        import grp
        import pwd

    try:
        me, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (found.gr_gid, found.gr_name) == (me.pw_gid, me.pw_name) and set(found.gr_mem) <= {me.pw_name}
