"""Saved programs from paths and bytes: machine code, so that it matters who wrote it."""

from __future__ import annotations

import os

from ..errors import FileError, InputError
from ..objects import trust
from ..settings import setting
from .container import MAGIC, Container, held, is_saved, opened


def saved_in(source: str | bytes) -> bool:
    """Whether a path or bytes hold a saved program, by their beginning."""
    if isinstance(source, bytes):
        return is_saved(source[: len(MAGIC)])
    if not os.path.isfile(source):
        return False
    try:
        with open(source, "rb", buffering=0) as file:
            return is_saved(file.read(len(MAGIC)))
    except OSError:
        return False  # who reads it says why not


def container(source: str | bytes, trusted: bool | None) -> Container:
    """The file, open and checked. `trusted`: whether its code may be run; None: if only this user, or the system's
    owner, can have written it, or FASTGRAPH_TRUST is set.

    InputError for code that is not trusted, ModelError for damage, FileError when it can't be read.
    """
    if trusted is None and setting("FASTGRAPH_TRUST", "0", "1") == "1":
        trusted = True
    if isinstance(source, bytes):
        if not trusted:
            raise _untrusted("these bytes", "nobody can tell who wrote them" if trusted is None else "trusted=False")
        return held(source, "saved program")
    if trusted is False:
        raise _untrusted(source, "trusted=False")
    try:
        return _open(source, bool(trusted))
    except trust.Untrusted as error:
        raise _untrusted(source, str(error)) from None
    except OSError as error:
        raise FileError(f"{source!r}: {error}") from None


def _open(source: str, trusted: bool) -> Container:
    path = os.path.realpath(source)
    handle = trust.opened(path)
    try:
        if not trusted:
            trust.check_file(handle, path)
            trust.check_folder(os.path.dirname(path), alone=False)
        return opened(handle, source)
    finally:
        os.close(handle)


def _untrusted(source: str, why: str) -> InputError:
    return InputError(
        f"{source}: a saved program holds machine code, which is not run, as {why}: if you trust who wrote it, "
        "load it with trusted=True, or set FASTGRAPH_TRUST=1"
    )
